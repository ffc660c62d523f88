#include "controller/status_page/views.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "common/format.h"

namespace coxswain::status_page {

using nlohmann::json;

constexpr size_t kEntityBytes = 6;  // "&quot;", the longest

json Real(double value, int digits) {
  return Number(fmt::format("{}", value), fmt::format("{:.{}f}", value, digits));
}

json Scientific(double value) {
  return Number(fmt::format("{}", value), fmt::format("{:.2e}", value));
}

json Count(int64_t value) { return Number(std::to_string(value), FormatCount(value)); }

json Whole(double value) {
  const bool fits = std::isfinite(value) && std::abs(value) < 1e15;
  return Number(fmt::format("{}", value),
                fits ? FormatCount(std::llround(value)) : fmt::format("{:.3g}", value));
}

json Bytes(uint64_t value) { return Number(std::to_string(value), FormatBytes(value)); }

json Moment(int64_t unix_ms, int64_t now_unix_ms) {
  const std::string iso = FormatTime(unix_ms);  // 2026-01-02T03:04:05.678Z
  const std::string day = iso.substr(0, 10);
  const bool today = day == FormatTime(now_unix_ms).substr(0, 10);
  return {{"ISO", iso},
          {"CLOCK", (today ? "" : day + " ") + iso.substr(11, 8)},
          {"AGO", FormatDuration(static_cast<double>(now_unix_ms - unix_ms) * 1e-3)}};
}

std::string Shortened(const std::string& text, size_t bytes) {
  size_t end = 0;
  for (size_t size = 0; end < text.size(); ++end) {
    size += std::string_view("<>&\"'").find(text[end]) == std::string_view::npos ? 1 : kEntityBytes;
    if (size > bytes) break;
  }
  if (end == text.size()) return text;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

}  // namespace coxswain::status_page
