// Pages from templates: every value is escaped for where it stands in the HTML (ctemplate's
// auto-escape), and the style and script are named by hash in the Content-Security-Policy.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_RENDER_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_RENDER_H_

#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::status_page {

class Renderer {
 public:
  Renderer();
  ~Renderer();

  // `page`: "overview" or "job"; values as views.h says. Thread-safe.
  std::string Render(const std::string& page, const nlohmann::json& fields) const;
  const std::string& content_security_policy() const { return policy_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string policy_;
};

// The files of this folder that are not C++, compiled in (cmake/embed.cmake).

// By file name.
const std::map<std::string, std::string>& PageFiles();

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_RENDER_H_
