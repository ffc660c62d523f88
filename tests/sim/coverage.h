// How often each row of a table was met: transitions, calls, faults.
#ifndef COXSWAIN_TESTS_SIM_COVERAGE_H_
#define COXSWAIN_TESTS_SIM_COVERAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace coxswain::sim {

class Coverage {
 public:
  void Count(std::string_view row) {
    const auto it = rows_.find(row);
    if (it != rows_.end()) {
      ++it->second;
    } else {
      rows_.emplace(row, 1);
    }
  }
  int64_t hits(std::string_view row) const {
    const auto it = rows_.find(row);
    return it == rows_.end() ? 0 : it->second;
  }
  const std::map<std::string, int64_t, std::less<>>& rows() const { return rows_; }

 private:
  std::map<std::string, int64_t, std::less<>> rows_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_COVERAGE_H_
