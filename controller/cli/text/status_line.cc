#include "controller/cli/text/status_line.h"

#include <algorithm>

#include <fmt/format.h>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/net/socket_address.h"
#include "common/outside_text.h"
#include "controller/cli/text/gauges.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

constexpr int kBarColumns = 24;

double Fraction(const hub::Progress& progress) {
  return progress.bytes_total == 0
             ? 1
             : static_cast<double>(progress.bytes) / static_cast<double>(progress.bytes_total);
}

// "50% 494.0 MiB/988.0 MiB 112.0 MiB/s 4s left"
std::string Numbers(const hub::Progress& progress) {
  const double rate = progress.bytes_per_second;
  const int64_t left = progress.bytes_total - progress.bytes;
  std::string text = fmt::format("{}% {}/{}", static_cast<int>(100 * Fraction(progress)),
                                 FormatBytes(static_cast<uint64_t>(progress.bytes)),
                                 FormatBytes(static_cast<uint64_t>(progress.bytes_total)));
  if (progress.waits) return text + " waits for another process that downloads the rest";
  if (rate < 1) return text;
  text += fmt::format(" {}/s", FormatBytes(static_cast<uint64_t>(rate)));
  if (left > 0) {
    text += fmt::format(" {} left", FormatDuration(static_cast<double>(left) / rate));
  }
  return text;
}

}  // namespace

std::string DownloadText(const std::string& name, const hub::Progress& progress) {
  return name + " " + Numbers(progress);
}

std::string DownloadLine(const std::string& name, const hub::Progress& progress, int columns) {
  const std::string numbers = Numbers(progress);
  const int room = columns - DisplayWidth(name) - DisplayWidth(numbers) - 2;
  const std::string bar = ProgressBar(Fraction(progress), std::min(room, kBarColumns));
  const std::string line = name + " " + (bar.empty() ? "" : bar + " ") + numbers;
  return line.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

hub::Progress ProgressOf(const v1::Fetching& fetching) {
  hub::Progress progress;
  progress.bytes = fetching.bytes();
  progress.bytes_total = fetching.bytes_total();
  progress.bytes_per_second = fetching.bytes_per_second();
  progress.waits = fetching.waits();
  return progress;
}

namespace {

constexpr char kScheme[] = "http://";

bool MeansEveryInterface(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

std::string PageLine(const v1::Job& job, const std::string& server) {
  const std::string& url = job.status_page();
  if (!url.starts_with(kScheme)) return "";
  const size_t begin = sizeof(kScheme) - 1, end = url.find('/', begin);
  const auto reached = ParseSocketAddress(server);
  auto page = ParseSocketAddress(url.substr(begin, end - begin));
  if (!reached.ok() || !page.ok() || end == std::string::npos) return "";
  if (MeansEveryInterface(page->host)) page->host = reached->host;
  const bool elsewhere = IsLoopback(page->host) && !IsLoopback(reached->host);
  return absl::StrCat("status page: ", kScheme, page->text(), OneLine(url.substr(end)),
                      elsewhere ? " on the controller's machine" : "");
}

}  // namespace coxswain::cli
