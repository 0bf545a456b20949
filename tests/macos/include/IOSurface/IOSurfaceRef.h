// The IOSurface type that metal-cpp names: zig's macOS headers have none.
#pragma once

typedef struct __IOSurface* IOSurfaceRef;
