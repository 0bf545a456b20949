#include "metal/launch.h"

#include <cctype>

#include "shader_source.h"

namespace mlx_pooling::metal {

Size Launch::threadgroup_within(int64_t most) const {
  auto group = threadgroup;
  // Lanes of a simdgroup are neighbours along x, which comes last.
  for (int i = 2; i >= 0; --i) {
    while (group[i] > 1 && int64_t{group[0]} * group[1] * group[2] > most) {
      group[i] /= 2;
    }
  }
  return group;
}

std::string Launch::name() const {
  std::string name;
  for (char c : kernel) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      name += c;
    } else if (c != '>' && c != ' ') {
      name += '_';
    }
  }
  return name;
}

std::string Launch::specialized_name() const {
  auto name = this->name();
  for (auto value : constants) {
    name += '_';
    name += std::to_string(value);
  }
  return name;
}

std::string Launch::source() const {
  std::string source = kShaderSource;
  source += "MLX_POOLING_INSTANTIATE(\"" + name() + "\", " + kernel + ")\n";
  return source;
}

} // namespace mlx_pooling::metal
