#include "controller/cli/text/page_line.h"

#include "absl/strings/str_cat.h"
#include "common/net/socket_address.h"
#include "common/outside_text.h"

namespace coxswain::cli {
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
