// JSON-lines logging over spdlog, with a ring of the newest lines that Logs RPCs read.
#ifndef COXSWAIN_COMMON_LOGGING_H_
#define COXSWAIN_COMMON_LOGGING_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace coxswain::log {

enum class Level { kDebug, kInfo, kWarning, kError };
const char* LevelName(Level level);  // as in a line: "debug", "info", "warning", "error"

// A value of a field: string, number or bool.
struct Value {
  Value(const char* v);         // NOLINT(google-explicit-constructor) call sites read as literals
  Value(const std::string& v);  // NOLINT(google-explicit-constructor)
  Value(std::string_view v);    // NOLINT(google-explicit-constructor)
  Value(double v);              // NOLINT(google-explicit-constructor)
  Value(int64_t v);             // NOLINT(google-explicit-constructor)
  Value(uint64_t v);            // NOLINT(google-explicit-constructor)
  Value(int v);                 // NOLINT(google-explicit-constructor)
  Value(bool v);                // NOLINT(google-explicit-constructor)
  std::string json;             // rendered
};
using Fields = std::initializer_list<std::pair<std::string_view, Value>>;

// Once, first thing in main. Lines go to stderr and, when `file` is not empty, to that file.
void Init(std::string_view component, Level level, const std::string& file = "");

// {"ts":"2026-01-01T00:00:00.000Z","level":"info","component":"worker","msg":..., fields...}
// Field names used across the product: job, epoch, rank, step, host, worker, error.
void Debug(std::string_view message, Fields fields = {});
void Info(std::string_view message, Fields fields = {});
void Warning(std::string_view message, Fields fields = {});
void Error(std::string_view message, Fields fields = {});

struct Line {
  uint64_t number = 0;  // +1 per line of this process, from 1
  int64_t time_unix_ms = 0;
  Level level{};
  std::string json;
};

uint64_t NewestLine();  // its number, 0: there is none
// Lines numbered above `after`, oldest first, from the newest 4,096 kept.
std::vector<Line> Lines(uint64_t after);
// Waits until a line above `after` exists or `timeout_ms` passed; then as Lines.
std::vector<Line> WaitForLines(uint64_t after, int64_t timeout_ms);

}  // namespace coxswain::log

#endif  // COXSWAIN_COMMON_LOGGING_H_
