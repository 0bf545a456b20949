#include "metal/encoder.h"

#include "metal/library.h"
#include "mlx/allocator.h"
#include "mlx/backend/metal/device.h"
#include "shader_source.h"

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

// Values must outlive the list, which points at them: bools need storage of
// their own size.
struct ConstantValues {
  explicit ConstantValues(const Constants& constants) {
    for (int i = 0; i < kConstants; ++i) {
      if (is_bool(i)) {
        bools[i] = constants[i] != 0;
        list.emplace_back(&bools[i], MTL::DataTypeBool, i);
      } else {
        ints[i] = constants[i];
        list.emplace_back(&ints[i], MTL::DataTypeInt, i);
      }
    }
  }

  std::array<int32_t, kConstants> ints{};
  std::array<bool, kConstants> bools{};
  mx::metal::MTLFCList list;
};

// Libraries are kept by name, process-wide: the hash in each keeps another
// version of this package, or of the shaders, apart.
MTL::Library* library(const Launch& launch, mx::metal::Device& device) {
  static const auto ready = ready_library();
  if (ready && is_ready(launch)) {
    return device.get_library(ready->stem().string(), ready->string());
  }
  return device.get_library(
      "mlx_pooling_" + std::string(kShaderHash) + "_" + launch.name(),
      [&] { return launch.source(); });
}

MTL::ComputePipelineState* pipeline(const Launch& launch, mx::Device on) {
  auto& device = mx::metal::device(on);
  ConstantValues constants(launch.constants);
  return device.get_kernel(
      launch.name(), library(launch, device), launch.specialized_name(),
      constants.list);
}

MTL::Size metal_size(Size size) {
  return MTL::Size(size[0], size[1], size[2]);
}

} // namespace

mx::array temporary(mx::Dtype dtype, mx::Shape shape, mx::Stream stream) {
  mx::array made(std::move(shape), dtype, nullptr, {});
  made.set_data(mx::allocator::malloc(made.nbytes()));
  mx::metal::get_command_encoder(stream).add_temporary(made);
  return made;
}

void encode(
    const Launch& launch,
    const std::vector<Binding>& bindings,
    mx::Stream stream) {
  auto& encoder = mx::metal::get_command_encoder(stream);
  auto* kernel = pipeline(launch, stream.device);
  auto threadgroup =
      launch.threadgroup_within(kernel->maxTotalThreadsPerThreadgroup());
  encoder.set_compute_pipeline_state(kernel);
  for (int i = 0; i < static_cast<int>(bindings.size()); ++i) {
    auto& [data, access] = bindings[i];
    if (data == nullptr) {
      continue;
    }
    // Nothing has no buffer, which Metal's validation takes for a missing one.
    bool has_buffer = data->size() > 0;
    encoder.set_input_array(
        has_buffer ? *data : temporary(data->dtype(), {1}, stream), i);
    if (access != Access::read) {
      encoder.register_output_array(*data);
    }
  }
  encoder.set_bytes(launch.params, kParamsIndex);
  encoder.dispatch_threads(metal_size(launch.grid), metal_size(threadgroup));
}

} // namespace mlx_pooling::metal
