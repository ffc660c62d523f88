#include "common/config/parser/job_parser.h"

#include <algorithm>
#include <utility>

#include "common/config/named_sources.h"
#include "common/config/parser/build_spec.h"
#include "common/config/rules/rules.h"
#include "common/config/rules/validate.h"
#include "common/config/yaml_tree.h"

namespace coxswain::config {

ParsedJob ParseJob(const std::string& yaml, const std::string& base_dir,
                   const ChosenResources& chosen) {
  ParsedJob job;
  YamlTree tree = ParseYaml(yaml);
  if (!tree.problems.empty()) {
    for (const YamlProblem& problem : tree.problems) {
      job.errors.push_back({"", problem.line, problem.message});
    }
    return job;
  }
  NameSources(base_dir, &tree.root);
  Validated validated = Validate(tree.root, base_dir);
  ApplyRules(chosen, &validated);
  job.errors = std::move(validated.errors);
  job.lines = std::move(validated.lines);
  std::stable_sort(job.errors.begin(), job.errors.end(),
                   [](const ConfigError& a, const ConfigError& b) { return a.line < b.line; });
  if (!job.errors.empty()) return job;
  job.spec = BuildSpec(validated.effective);
  job.effective_json = validated.effective.dump(2);
  return job;
}

}  // namespace coxswain::config
