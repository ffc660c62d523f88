#include "controller/cli/text/table.h"

#include <algorithm>
#include <utility>

#include "common/outside_text.h"

namespace coxswain::cli {

void Table::Add(std::vector<std::string> row) {
  for (std::string& cell : row) {
    cell = cell.empty() ? "-" : OneLine(cell);
  }
  rows_.push_back(std::move(row));
}

std::string Table::Text(int indent) const {
  std::vector<int> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    text.append(indent, ' ');
    for (size_t c = 0; c < row.size(); ++c) {
      text += row[c];
      if (c + 1 < row.size()) text.append(widths[c] - DisplayWidth(row[c]) + 3, ' ');
    }
    text += "\n";
  }
  return text;
}

int DisplayWidth(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace coxswain::cli
