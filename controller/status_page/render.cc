#include "controller/status_page/render.h"

#include <ctemplate/template.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/files/hash.h"

namespace coxswain::status_page {
namespace {

using nlohmann::json;

constexpr ctemplate::Strip kStrip = ctemplate::STRIP_WHITESPACE;
constexpr const char* kTemplates[] = {"overview", "job", "head", "curve"};

void Fill(const json& fields, ctemplate::TemplateDictionary* dictionary) {
  for (const auto& [key, value] : fields.items()) {
    if (value.is_string()) {
      dictionary->SetValue(key, value.get_ref<const std::string&>());
    } else if (value.is_boolean()) {
      if (value.get<bool>()) dictionary->ShowSection(key);
    } else {
      const json list = value.is_array() ? value : json::array({value});
      for (const json& element : list) {
        const bool include = key.starts_with('>');
        const std::string name = include ? key.substr(1) : key;
        auto* part = include ? dictionary->AddIncludeDictionary(name)
                             : dictionary->AddSectionDictionary(name);
        if (include) part->SetFilename(name);
        Fill(element, part);
      }
    }
  }
}

std::string HashSource(const std::string& text) {
  return absl::StrCat("'sha256-", absl::Base64Escape(Sha256(text)), "'");
}

}  // namespace

struct Renderer::Impl {
  ctemplate::TemplateCache cache;
};

Renderer::Renderer() : impl_(std::make_unique<Impl>()) {
  for (const char* name : kTemplates) {
    impl_->cache.StringToTemplateCache(name, PageFiles().at(absl::StrCat(name, ".html")), kStrip);
  }
  impl_->cache.Freeze();
  policy_ = absl::StrCat("default-src 'none'; connect-src 'self'; img-src data:; style-src ",
                         HashSource(PageFiles().at("style.css")), "; script-src ",
                         HashSource(PageFiles().at("live.js")),
                         "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

Renderer::~Renderer() = default;

std::string Renderer::Render(const std::string& page, const json& fields) const {
  ctemplate::TemplateDictionary dictionary(page);
  dictionary.SetTemplateGlobalValueWithoutCopy("STYLE", PageFiles().at("style.css"));
  dictionary.SetTemplateGlobalValueWithoutCopy("SCRIPT", PageFiles().at("live.js"));
  Fill(fields, &dictionary);
  std::string html;
  impl_->cache.ExpandNoLoad(page, kStrip, &dictionary, /*per_expand_data=*/nullptr, &html);
  return html;
}

}  // namespace coxswain::status_page
