#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace mlx_pooling {

// Throws what Python sees as ValueError, worded "[name] message".
template <typename... Parts>
[[noreturn]] void fail(const std::string& name, const Parts&... parts) {
  std::ostringstream message;
  message << "[" << name << "] ";
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

// A sequence as Python prints a tuple: "(3,)", "(0, 2)".
template <typename Sequence>
std::string tuple_string(const Sequence& values) {
  std::ostringstream text;
  text << "(";
  const char* separator = "";
  for (auto v : values) {
    text << separator;
    if constexpr (requires { v.has_value(); }) {
      text << (v ? std::to_string(*v) : "None");
    } else {
      text << v;
    }
    separator = ", ";
  }
  text << (values.size() == 1 ? ",)" : ")");
  return text.str();
}

} // namespace mlx_pooling
