#include "common/format.h"

#include <ctime>

#include <fmt/format.h>

namespace coxswain {

std::string FormatDuration(double seconds) {
  const int64_t total = seconds > 0 && seconds < 1e15 ? static_cast<int64_t>(seconds) : 0;
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  if (total < 86400) return fmt::format("{}h{:02}m", total / 3600, total % 3600 / 60);
  return fmt::format("{}d{}h", total / 86400, total % 86400 / 3600);
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (amount >= 1023.95 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", amount, amount < 9.995 ? 2 : 1, kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string FormatTime(int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     unix_ms % 1000);
}

}  // namespace coxswain
