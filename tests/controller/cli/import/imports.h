// Imports of small configurations, and what tests look at in them.
#ifndef COXSWAIN_TESTS_CONTROLLER_CLI_IMPORT_IMPORTS_H_
#define COXSWAIN_TESTS_CONTROLLER_CLI_IMPORT_IMPORTS_H_

#include <string>

#include <gtest/gtest.h>

#include "controller/cli/import/job_import.h"
#include "controller/cli/import/report_text.h"

namespace coxswain::job_import {

struct Tried {
  Imported imported;
  nlohmann::ordered_json spec;  // of the job
  std::string report;

  // The value at "train.optimizer" or "datasets.0.format" as JSON text; "" where there is none.
  std::string At(std::string path) const {
    for (char& c : path) c = c == '.' ? '/' : c;
    const nlohmann::ordered_json::json_pointer pointer("/" + path);
    return spec.contains(pointer) ? spec[pointer].dump() : "";
  }
  bool Says(const std::string& text) const { return report.find(text) != std::string::npos; }
  std::string InTheWay() const {
    std::string all;
    for (const std::string& item : imported.in_the_way) all += item + "\n";
    return all;
  }
};

inline Tried Try(const std::string& text, std::string base_dir = "/nowhere",
                 std::string dataset_dir = "") {
  Tried tried;
  const absl::StatusOr<Imported> imported =
      ImportJob({text, "My Job_1", std::move(base_dir), std::move(dataset_dir), std::nullopt});
  EXPECT_TRUE(imported.ok()) << imported.status();
  if (!imported.ok()) return tried;
  tried.imported = *imported;
  const config::YamlTree tree = config::ParseYaml(imported->yaml);
  EXPECT_TRUE(tree.problems.empty()) << imported->yaml;
  tried.spec = ToJson(tree.root)["spec"];
  tried.report = ReportText(*imported, "f.yml");
  return tried;
}

inline std::string Refusal(const std::string& text) {
  const absl::StatusOr<Imported> imported = ImportJob({text, "x", "/nowhere", "", std::nullopt});
  return imported.ok() ? "" : std::string(imported.status().message());
}

}  // namespace coxswain::job_import

#endif  // COXSWAIN_TESTS_CONTROLLER_CLI_IMPORT_IMPORTS_H_
