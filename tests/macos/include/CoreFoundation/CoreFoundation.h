// The CoreFoundation types that metal-cpp names: zig's macOS headers have none.
#pragma once

typedef double CFTimeInterval;
typedef const void* CFTypeRef;
