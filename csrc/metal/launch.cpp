#include "metal/launch.h"

#include <cctype>

#include "shader_source.h"

namespace mlx_pooling::metal {

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
