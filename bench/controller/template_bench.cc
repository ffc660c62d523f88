// Chat templates: renderings a second on one thread, of a conversation of four turns (eight
// messages of 440 bytes), from values that are made already and from the text of a JSON line.
//
//   build/cpu/bench/template_bench     from the repository root
//
// Templates: tests/fixtures/templates. Each run renders for a fifth of a second; prints median and
// p90 and writes bench/results/template.json. Renders the same with jinja2, set up as transformers
// does, where python3 (env COXSWAIN_PYTHON) can import it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/report.h"
#include "controller/text/jinja/chat_template.h"
#include "controller/text/jinja/values/containers.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/tokenizer/file/gzip_file.h"

namespace {

namespace jinja = coxswain::data::jinja;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 15;
constexpr double kSecondsOfRun = 0.2;
constexpr const char* kTemplates[] = {"ct--qwen2.5-instruct.jinja", "trl--qwen3_6_training.jinja",
                                      "trl--gptoss.jinja", "axolotl--llama3.jinja"};

std::string FourTurns() {
  std::string words;
  for (int i = 0; i < 10; ++i) words += "The quick brown fox jumps over the lazy dog ";
  nlohmann::ordered_json messages;
  for (int i = 0; i < 8; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", words}});
  }
  return nlohmann::ordered_json{{"messages", messages}}.dump();
}

std::string Source(const std::string& name) {
  const auto text = coxswain::data::ReadMaybeGzip("tests/fixtures/templates/templates.jsonl.gz");
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry["name"] == name) return entry["source"];
  }
  std::fprintf(stderr, "%s is not in tests/fixtures/templates: run from the repository root\n",
               name.c_str());
  std::exit(1);
}

jinja::Conversation Conversation(const std::string& line) {
  const jinja::Value value = *jinja::ParseJson(line);
  jinja::Conversation conversation;
  conversation.messages = *value.dict().Find("messages");
  return conversation;
}

// Renderings a second, slowest run first.
std::vector<double> Rates(const std::function<size_t()>& render) {
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = Clock::now();
    int64_t count = 0;
    double seconds = 0;
    while (seconds < kSecondsOfRun) {
      for (int i = 0; i < 100; ++i) count += render() > 0 ? 1 : 0;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    rates.push_back(static_cast<double>(count) / seconds);
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

// Renderings a second by jinja2 of a template file and a file of one line; negative: not there.
double Jinja2Rate(const std::string& source, const std::string& line) {
  static constexpr char kScript[] = R"PY(
import json, sys, time
try:
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    import jinja2.ext
except ImportError:
    sys.exit(0)
from jinja2 import nodes
class Generation(jinja2.ext.Extension):
    tags = {"generation"}
    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)
    def render(self, caller): return caller()
e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
e.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
e.globals["strftime_now"] = lambda f: "2025-07-26"
def refuse(m): raise ValueError(m)
e.globals["raise_exception"] = refuse
t = e.from_string(open(sys.argv[1]).read())
v = json.load(open(sys.argv[2]))
rates = []
for _ in range(7):
    n, a = 0, time.perf_counter()
    while time.perf_counter() - a < 0.2:
        t.render(tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", **v)
        n += 1
    rates.append(n / (time.perf_counter() - a))
print(sorted(rates)[3])
)PY";
  char folder[] = "/tmp/template_bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) return -1;
  const std::string base = folder;
  std::ofstream(base + "/script.py") << kScript;
  std::ofstream(base + "/template") << source;
  std::ofstream(base + "/line") << line;
  const char* python = std::getenv("COXSWAIN_PYTHON");
  const std::string command = std::string(python != nullptr ? python : "python3") + " " + base +
                              "/script.py " + base + "/template " + base + "/line 2>/dev/null";
  std::string answer;
  if (FILE* pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    char block[256];
    while (std::fgets(block, sizeof(block), pipe) != nullptr) answer += block;
    pclose(pipe);
  }
  for (const char* file : {"/script.py", "/template", "/line", ""})
    std::remove((base + file).c_str());
  return answer.empty() ? -1 : std::atof(answer.c_str());
}

nlohmann::json Measure(const std::string& name, const std::string& line) {
  const std::string source = Source(name);
  const auto parsed = jinja::Template::Parse(source, name);
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s\n", std::string(parsed.status().message()).c_str());
    std::exit(1);
  }
  const jinja::SpecialTokens tokens = {"<s>", "</s>", "<pad>", "<unk>"};
  const jinja::Clock clock{absl::UnixEpoch(), absl::UTCTimeZone()};
  size_t bytes = 0;
  const auto render = [&](jinja::Conversation conversation) {
    conversation.add_generation_prompt = true;
    const auto rendering = jinja::RenderChat(**parsed, conversation, tokens, clock);
    if (!rendering.ok()) {
      std::fprintf(stderr, "%s\n", std::string(rendering.status().message()).c_str());
      std::exit(1);
    }
    return bytes = rendering->text.size();
  };
  const jinja::Conversation made = Conversation(line);
  const std::vector<double> values = Rates([&] { return render(made); });
  const std::vector<double> lines = Rates([&] { return render(Conversation(line)); });
  const double peer = Jinja2Rate(source, line);
  // p90 of the time of a run is the rate that 90 % of the runs reach.
  std::printf(
      "%-28s %5zu bytes  values: median %8.0f/s p90 %8.0f/s  JSON: median %8.0f/s  jinja2: ",
      name.c_str(), bytes, values[kRuns / 2], values[kRuns / 10], lines[kRuns / 2]);
  std::printf(peer > 0 ? "%.0f/s\n" : "not there\n", peer);
  nlohmann::json row = {{"template", name},
                        {"bytes", bytes},
                        {"median_per_s", values[kRuns / 2]},
                        {"p90_per_s", values[kRuns / 10]},
                        {"from_json_median_per_s", lines[kRuns / 2]}};
  if (peer > 0) row["jinja2_median_per_s"] = peer;
  return row;
}

}  // namespace

int main() {
  const std::string line = FourTurns();
  nlohmann::json result = {
      {"bench", "template"},
      {"command", "build/cpu/bench/template_bench"},
      {"setting", "four turns, eight messages of 440 bytes, add_generation_prompt, one thread"}};
  std::printf("%s\n%s\n", coxswain::bench::Machine().c_str(),
              result["setting"].get<std::string>().c_str());
  for (const char* name : kTemplates) result["rows"].push_back(Measure(name, line));
  coxswain::bench::WriteResults("bench/results/template.json", std::move(result));
  return 0;
}
