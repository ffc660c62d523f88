// Templates that nobody would write: none may crash, hang, or pass a limit. Invariant jinja-3.
// COXSWAIN_FUZZ_CASES sets another number of cases than CI's; case N is always the same.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/controller/text/jinja/fixture.h"
#include "tests/controller/text/jinja/render_anything.h"

namespace coxswain::data::jinja {
namespace {

int Cases(int usual) {
  const char* given = std::getenv("COXSWAIN_FUZZ_CASES");
  return given != nullptr ? std::atoi(given) : usual;
}

void ExpectKept(const std::string& source) {
  const std::string broken = RenderAnything(source);
  ASSERT_TRUE(broken.empty()) << broken << ": " << source;
}

// Pieces that meet each other in the ways that matter.
const char* const kPieces[] = {"{{",
                               "}}",
                               "{%",
                               "%}",
                               "{%-",
                               "-%}",
                               "{#",
                               "#}",
                               "(",
                               ")",
                               "[",
                               "]",
                               "{",
                               "}",
                               "|",
                               ".",
                               ",",
                               ":",
                               "~",
                               "+",
                               "-",
                               "*",
                               "**",
                               "/",
                               "//",
                               "%",
                               "=",
                               "==",
                               "!=",
                               "<",
                               ">=",
                               " is ",
                               " in ",
                               " not ",
                               " and ",
                               " or ",
                               " if ",
                               " else ",
                               " for ",
                               " recursive ",
                               "'a'",
                               "\"é\\u00e9\"",
                               "'%s{}'",
                               "0",
                               "1",
                               "-7",
                               "2.5",
                               "1e308",
                               "9223372036854775807",
                               "none",
                               "true",
                               "messages",
                               "tools",
                               "loop",
                               "m",
                               "x",
                               "namespace",
                               "ns",
                               "range(9)",
                               "caller",
                               "varargs",
                               "kwargs",
                               "dict",
                               "cycler",
                               "joiner()",
                               "set x = ",
                               "set ns = namespace(x=messages)",
                               "set ns.x = ns",
                               "for m in messages",
                               "endfor",
                               "if x",
                               "elif",
                               "else",
                               "endif",
                               "macro m(x, y=1)",
                               "endmacro",
                               "call m()",
                               "endcall",
                               "filter upper",
                               "endfilter",
                               "set x",
                               "endset",
                               "with x = 1",
                               "endwith",
                               "generation",
                               "endgeneration",
                               "raw",
                               "endraw",
                               "break",
                               "continue",
                               "upper",
                               "tojson(indent=2)",
                               "map('upper')",
                               "map(attribute='role')",
                               "list",
                               "join",
                               "length",
                               "selectattr('role', 'eq', 'user')",
                               "first",
                               "last",
                               "sort",
                               "reverse",
                               "batch(2)",
                               "slice(3)",
                               "default('d')",
                               "indent(3)",
                               "replace('a', 'bb')",
                               "groupby('role')",
                               "round(2)",
                               "int",
                               "safe",
                               "e",
                               "format(1)",
                               "items",
                               "get('role')",
                               "split('a')",
                               "strip()",
                               "format(x, m)",
                               "startswith('a')",
                               "content",
                               "role",
                               "defined",
                               "mapping",
                               "string",
                               "divisibleby",
                               "[::-1]",
                               "[1:]",
                               "[-1]",
                               "'x' * 99999",
                               "x ~ x",
                               "\n",
                               " ",
                               "text",
                               "\xff",
                               "\xe2\x82",
                               "\0"};

std::string RandomTokens(std::mt19937* random) {
  std::string source;
  const size_t count = 1 + (*random)() % 60;
  for (size_t i = 0; i < count; ++i) {
    // Tags are opened and closed more often than chance would.
    const unsigned dice = (*random)() % 8;
    if (dice == 0) source += "{{ ";
    if (dice == 1) source += " }}";
    if (dice == 2) source += "{% ";
    if (dice == 3) source += " %}";
    source += kPieces[(*random)() % std::size(kPieces)];
  }
  return source;
}

TEST(JinjaFuzzTest, RandomTokens) {
  const int cases = Cases(6000);
  for (int i = 0; i < cases; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    ExpectKept(RandomTokens(&random));
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

// Expressions that parse, so that evaluation is reached.
std::string RandomExpression(std::mt19937* random, int depth) {
  static const char* const kAtoms[] = {"messages", "tools", "x",       "'ab'",    "1",  "-2.5",
                                       "none",     "true",  "m",       "ns",      "[]", "{}",
                                       "range(5)", "loop",  "'é' * 3", "9e18|int"};
  static const char* const kInfix[] = {" + ", " - ",  " * ", " / ",  " // ",  " % ",  " ** ",
                                       " ~ ", " == ", " < ", " in ", " and ", " or ", " not in "};
  static const char* const kPostfix[] = {"|list",
                                         "|length",
                                         "|upper",
                                         "|tojson",
                                         "|sort",
                                         "|map('string')|list",
                                         "|join(',')",
                                         "[0]",
                                         "[-1:]",
                                         "[::-2]",
                                         ".role",
                                         ".items()",
                                         ".get('content')",
                                         "|first",
                                         "|string",
                                         " is string",
                                         " is iterable",
                                         "|int",
                                         "|float|round(1)",
                                         "|reverse|list",
                                         "|unique|list",
                                         "|batch(2)|list",
                                         "|dictsort",
                                         "|selectattr('role')|list",
                                         "|groupby('role')",
                                         "|sum",
                                         "|max",
                                         "|trim",
                                         "|indent",
                                         ".split('a', 1)",
                                         ".format(1, a=x)",
                                         " % 3",
                                         "|tojson(indent=1)",
                                         "|replace('a', x)",
                                         "|safe",
                                         "|truncate(3, true)",
                                         "|wordcount",
                                         "|title",
                                         ".center(7)",
                                         "|map(attribute='content')|list",
                                         "|select('defined')|list",
                                         "|attr('get')",
                                         "()",
                                         "|default(x, true)",
                                         "|slice(2)|list"};
  if (depth == 0) return kAtoms[(*random)() % std::size(kAtoms)];
  switch ((*random)() % 4) {
    case 0:
      return "(" + RandomExpression(random, depth - 1) + kInfix[(*random)() % std::size(kInfix)] +
             RandomExpression(random, depth - 1) + ")";
    case 1:
      return "[" + RandomExpression(random, depth - 1) + ", " +
             RandomExpression(random, depth - 1) + "]";
    default:
      return "(" + RandomExpression(random, depth - 1) + ")" +
             kPostfix[(*random)() % std::size(kPostfix)];
  }
}

TEST(JinjaFuzzTest, RandomExpressions) {
  const int cases = Cases(10000);
  for (int i = 0; i < cases; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    const auto expression = [&] {
      return RandomExpression(&random, static_cast<int>(random() % 5));
    };
    ExpectKept("{% set ns = namespace(x=1) %}{% macro m(x) %}{{ x }}{% endmacro %}{% set x = " +
               expression() + " %}{{ " + expression() + " }}{% for m in " + expression() +
               " %}{% set ns.x = " + expression() + " %}{{ " + expression() + " }}{% endfor %}");
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

// Real templates with pieces cut out, doubled, moved and replaced.
void Mutate(std::mt19937* random, std::string* source) {
  const size_t times = 1 + (*random)() % 4;
  for (size_t i = 0; i < times && !source->empty(); ++i) {
    const size_t at = (*random)() % source->size();
    const size_t size = 1 + (*random)() % 40;
    switch ((*random)() % 5) {
      case 0:
        source->erase(at, size);
        break;
      case 1:
        source->insert(at, source->substr((*random)() % source->size(), size));
        break;
      case 2:
        source->insert(at, kPieces[(*random)() % std::size(kPieces)]);
        break;
      case 3:
        (*source)[at] = static_cast<char>((*random)() % 256);
        break;
      default:
        source->replace(at, size, kPieces[(*random)() % std::size(kPieces)]);
    }
  }
}

TEST(JinjaFuzzTest, MutatedTemplates) {
  const auto templates = ReadLines("tests/fixtures/templates/templates.jsonl.gz");
  const int cases = Cases(3000);
  for (int i = 0; i < cases; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    std::string source = templates[random() % templates.size()]["source"];
    Mutate(&random, &source);
    ExpectKept(source);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

}  // namespace
}  // namespace coxswain::data::jinja
