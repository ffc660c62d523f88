// Numbers and times as people read them.
#ifndef COXSWAIN_COMMON_FORMAT_H_
#define COXSWAIN_COMMON_FORMAT_H_

#include <cstdint>
#include <string>

namespace coxswain {

// "0s", "45s", "3m12s", "2h05m", "3d4h"; negative counts as zero.
std::string FormatDuration(double seconds);

// "512 B", "1.50 KiB", "12.0 MiB": three digits or more.
std::string FormatBytes(uint64_t bytes);

// "1,234,567".
std::string FormatCount(int64_t count);

// RFC 3339 in UTC with milliseconds: "2026-01-02T03:04:05.678Z".
std::string FormatTime(int64_t unix_ms);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FORMAT_H_
