#include "common/logging.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <nlohmann/json.hpp>

#include "absl/base/thread_annotations.h"
#include "common/format.h"
#include "common/mutex.h"
#include "common/outside_text.h"

namespace coxswain::log {
namespace {

constexpr size_t kRingLines = 4096;
constexpr size_t kMostTextBytes = 64 << 10;  // of a message or field: the ring stays bounded

std::string Quoted(std::string_view text) {
  return nlohmann::json(CleanText(text, kMostTextBytes)).dump();
}

// JSON has no NaN or infinity: they are written as strings.
std::string Number(double v) {
  return std::isfinite(v) ? nlohmann::json(v).dump() : Quoted(fmt::format("{}", v));
}

// The process's log. Numbering, ring and sinks change together, under one mutex, so that the ring
// and the sinks hold the lines in the same order.
class Log {
 public:
  static Log& Get() {
    static Log* const log = new Log;  // outlives the threads that still log at exit
    return *log;
  }

  void Init(std::string_view component, Level level, const std::string& file) {
    std::string file_error;
    {
      MutexLock lock(mu_);
      component_ = component;
      level_ = level;
      sinks_.resize(1);
      if (!file.empty()) {
        try {
          sinks_.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
        } catch (const spdlog::spdlog_ex& e) {
          file_error = e.what();
        }
      }
      MakeLogger();
    }
    if (!file_error.empty()) {
      Write(Level::kError, "the log file cannot be opened; lines go to stderr only",
            {{"file", file}, {"error", file_error}});
    }
  }

  void Write(Level level, std::string_view message, Fields fields) {
    MutexLock lock(mu_);
    if (level < level_) return;
    Line line;
    line.number = next_number_++;
    line.time_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    line.level = level;
    line.json = fmt::format(R"({{"ts":"{}","level":"{}","component":{},"msg":{})",
                            FormatTime(line.time_unix_ms), LevelName(level), Quoted(component_),
                            Quoted(message));
    for (const auto& [name, value] : fields) {
      line.json += fmt::format(",{}:{}", Quoted(name), value.json);
    }
    line.json += '}';
    logger_->log(spdlog::level::info, line.json);
    ring_.push_back(std::move(line));
    if (ring_.size() > kRingLines) ring_.pop_front();
    changed_.NotifyAll();
  }

  uint64_t Newest() {
    MutexLock lock(mu_);
    return next_number_ - 1;
  }

  std::vector<Line> Wait(uint64_t after, int64_t timeout_ms) {
    MutexLock lock(mu_);
    changed_.WaitFor(lock, std::chrono::milliseconds(timeout_ms),
                     [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return next_number_ > after + 1; });
    const auto first = std::find_if(ring_.begin(), ring_.end(),
                                    [&](const Line& line) { return line.number > after; });
    return {first, ring_.end()};
  }

 private:
  Log() : sinks_{std::make_shared<spdlog::sinks::stderr_sink_mt>()} { MakeLogger(); }

  void MakeLogger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    logger_ = std::make_unique<spdlog::logger>("coxswain", sinks_.begin(), sinks_.end());
    logger_->set_pattern("%v");
    logger_->flush_on(spdlog::level::info);
  }

  Mutex mu_;
  CondVar changed_;
  std::string component_ ABSL_GUARDED_BY(mu_) = "coxswain";
  Level level_ ABSL_GUARDED_BY(mu_) = Level::kInfo;
  std::vector<spdlog::sink_ptr> sinks_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<spdlog::logger> logger_ ABSL_GUARDED_BY(mu_);
  std::deque<Line> ring_ ABSL_GUARDED_BY(mu_);
  uint64_t next_number_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace

const char* LevelName(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "error";
}

Value::Value(const char* v) : json(Quoted(v)) {}
Value::Value(const std::string& v) : json(Quoted(v)) {}
Value::Value(std::string_view v) : json(Quoted(v)) {}
Value::Value(double v) : json(Number(v)) {}
Value::Value(int64_t v) : json(std::to_string(v)) {}
Value::Value(uint64_t v) : json(std::to_string(v)) {}
Value::Value(int v) : json(std::to_string(v)) {}
Value::Value(bool v) : json(v ? "true" : "false") {}

void Init(std::string_view component, Level level, const std::string& file) {
  Log::Get().Init(component, level, file);
}

void Debug(std::string_view message, Fields fields) {
  Log::Get().Write(Level::kDebug, message, fields);
}
void Info(std::string_view message, Fields fields) {
  Log::Get().Write(Level::kInfo, message, fields);
}
void Warning(std::string_view message, Fields fields) {
  Log::Get().Write(Level::kWarning, message, fields);
}
void Error(std::string_view message, Fields fields) {
  Log::Get().Write(Level::kError, message, fields);
}

uint64_t NewestLine() { return Log::Get().Newest(); }
std::vector<Line> Lines(uint64_t after) { return Log::Get().Wait(after, 0); }
std::vector<Line> WaitForLines(uint64_t after, int64_t timeout_ms) {
  return Log::Get().Wait(after, timeout_ms);
}

}  // namespace coxswain::log
