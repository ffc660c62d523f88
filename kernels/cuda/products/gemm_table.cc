// JSON: {"device": name, "library": cublasLtGetVersion(), "gemms": [{the fields of GemmKey, "algo":
// the bytes of cublasLtMatmulAlgo_t in hexadecimal, "workspace_bytes", "bias_first",
// "microseconds", "tflops" (the last two 0 where not measured); no "addend" means 0;
// "fp8": formats and scalings of operands in FP8; "apart" where true}, ...],
// "gated": [{the fields of GatedKey and FusedChoice but "settled" and "used"; no "activation" means
// silu, no "rank" 0}, ...], "lora": [{the fields of LoraKey and FusedChoice likewise}, ...],
// "rotated": [{those of RotatedKey}, ...]}, sorted by key. A table without "gated", "lora" or
// "rotated" has none.
#include "kernels/cuda/products/gemm_table.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {
namespace {

using Json = nlohmann::ordered_json;

const char* TypeName(DType dtype) { return dtype == DType::kFloat32 ? "float32" : "bfloat16"; }
DType TypeNamed(const std::string& name) {
  return name == "float32" ? DType::kFloat32 : DType::kBFloat16;
}

std::string Hexadecimal(const cublasLtMatmulAlgo_t& algo) {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char bytes[sizeof(algo)];
  std::memcpy(bytes, &algo, sizeof(algo));
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool ParseHexadecimal(const std::string& text, cublasLtMatmulAlgo_t* algo) {
  unsigned char bytes[sizeof(*algo)];
  if (text.size() != 2 * sizeof(bytes)) return false;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  std::memcpy(algo, bytes, sizeof(bytes));
  return true;
}

constexpr const char* kFormatNames[] = {"e4m3", "e5m2"};
constexpr const char* kScalingNames[] = {"tensor", "row", "tile", "block"};

Json Describe(const Fp8GemmSpec& spec) {
  const auto format = [](Fp8Format f) { return kFormatNames[static_cast<size_t>(f)]; };
  const auto scaling = [](Fp8Scaling s) { return kScalingNames[static_cast<size_t>(s)]; };
  return {{"a_format", format(spec.a_format)},
          {"b_format", format(spec.b_format)},
          {"a_scaling", scaling(spec.a_scaling)},
          {"b_scaling", scaling(spec.b_scaling)},
          {"promote", spec.promote}};
}

Json Describe(const GemmKey& key, const GemmChoice& choice) {
  const double operations =
      2.0 * static_cast<double>(key.m) * static_cast<double>(key.n) * static_cast<double>(key.k);
  Json described = {
      {"m", key.m},
      {"n", key.n},
      {"k", key.k},
      {"lda", key.lda},
      {"ldb", key.ldb},
      {"ldc", key.ldc},
      {"workspace", key.workspace},
      {"dtype", TypeName(key.spec.dtype)},
      {"output_dtype", TypeName(key.spec.output_dtype)},
      {"transpose_a", key.spec.transpose_a},
      {"transpose_b", key.spec.transpose_b},
      {"accumulate", key.accumulate},
      {"bias", key.bias},
      {"alignment", key.alignment},
      {"algo", Hexadecimal(choice.algo)},
      {"workspace_bytes", choice.workspace_bytes},
      {"bias_first", choice.bias_first},
      {"microseconds", choice.microseconds},
      {"tflops", choice.microseconds > 0 ? operations / choice.microseconds * 1e-6 : 0.0}};
  if (key.addend > 0) described["addend"] = key.addend;
  if (key.fp8.used) described["fp8"] = Describe(key.fp8.spec);
  if (choice.apart) described["apart"] = true;
  return described;
}

// False if a field is missing or of another type.
template <typename T>
bool Read(const Json& from, const char* name, T* value) {
  const auto field = from.find(name);
  if (field == from.end()) return false;
  if constexpr (std::is_same_v<T, bool>) {
    if (!field->is_boolean()) return false;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!field->is_string()) return false;
  } else {
    if (!field->is_number()) return false;
  }
  *value = field->template get<T>();
  return true;
}

// The enumerator whose place in `names` a field has.
template <typename Enum, size_t kCount>
bool ReadName(const Json& from, const char* name, const char* const (&names)[kCount], Enum* value) {
  std::string text;
  if (!Read(from, name, &text)) return false;
  const auto* const found = std::find(std::begin(names), std::end(names), text);
  *value = static_cast<Enum>(found - std::begin(names));
  return found != std::end(names);
}

bool ParseFp8(const Json& from, GemmKey* key) {
  const auto fp8 = from.find("fp8");
  if (fp8 == from.end()) return true;
  Fp8GemmSpec* const spec = &key->fp8.spec;
  key->fp8.used = true;
  return fp8->is_object() && ReadName(*fp8, "a_format", kFormatNames, &spec->a_format) &&
         ReadName(*fp8, "b_format", kFormatNames, &spec->b_format) &&
         ReadName(*fp8, "a_scaling", kScalingNames, &spec->a_scaling) &&
         ReadName(*fp8, "b_scaling", kScalingNames, &spec->b_scaling) &&
         Read(*fp8, "promote", &spec->promote);
}

bool ParseEntry(const Json& from, GemmKey* key, GemmChoice* choice) {
  std::string dtype, output_dtype, algo;
  if (!from.is_object() || !Read(from, "m", &key->m) || !Read(from, "n", &key->n) ||
      !Read(from, "k", &key->k) || !Read(from, "lda", &key->lda) || !Read(from, "ldb", &key->ldb) ||
      !Read(from, "ldc", &key->ldc) || !Read(from, "workspace", &key->workspace) ||
      !Read(from, "dtype", &dtype) || !Read(from, "output_dtype", &output_dtype) ||
      !Read(from, "transpose_a", &key->spec.transpose_a) ||
      !Read(from, "transpose_b", &key->spec.transpose_b) ||
      !Read(from, "accumulate", &key->accumulate) || !Read(from, "bias", &key->bias) ||
      (from.contains("addend") && !Read(from, "addend", &key->addend)) ||
      !Read(from, "algo", &algo) || !Read(from, "workspace_bytes", &choice->workspace_bytes) ||
      !Read(from, "bias_first", &choice->bias_first) ||
      !Read(from, "microseconds", &choice->microseconds)) {
    return false;
  }
  key->spec.dtype = TypeNamed(dtype);
  key->spec.output_dtype = TypeNamed(output_dtype);
  if (!ParseFp8(from, key) || (from.contains("apart") && !Read(from, "apart", &choice->apart))) {
    return false;
  }
  const auto alignment = from.find("alignment");
  if (alignment == from.end() || !alignment->is_array() || alignment->size() != 4) return false;
  for (size_t i = 0; i < 4; ++i) {
    if (!(*alignment)[i].is_number_integer()) return false;
    key->alignment[i] = (*alignment)[i].get<int32_t>();
  }
  return ParseHexadecimal(algo, &choice->algo);
}

void AddChoice(const FusedChoice& choice, Json* to) {
  (*to)["fused"] = choice.fused;
  (*to)["plain_microseconds"] = choice.plain_microseconds;
  (*to)["fused_microseconds"] = choice.fused_microseconds;
}
bool ReadChoice(const Json& from, FusedChoice* choice) {
  choice->settled = true;
  return Read(from, "fused", &choice->fused) &&
         Read(from, "plain_microseconds", &choice->plain_microseconds) &&
         Read(from, "fused_microseconds", &choice->fused_microseconds);
}

Json Describe(const GatedKey& key, const FusedChoice& choice) {
  Json described = {{"backward", key.backward},
                    {"rows", key.rows},
                    {"hidden", key.hidden},
                    {"intermediate", key.intermediate}};
  AddChoice(choice, &described);
  if (key.activation != GateActivation::kSilu) {
    described["activation"] = key.activation == GateActivation::kGelu ? "gelu" : "gelu_tanh";
  }
  if (key.rank > 0) described["rank"] = key.rank;
  return described;
}

Json Describe(const LoraKey& key, const FusedChoice& choice) {
  Json described = {{"backward", key.backward}, {"rows", key.rows}, {"in", key.in},
                    {"out", key.out},           {"rank", key.rank}, {"members", key.members}};
  AddChoice(choice, &described);
  return described;
}

Json Describe(const RotatedKey& key, const FusedChoice& choice) {
  Json described = {{"rows", key.rows},
                    {"in", key.in},
                    {"heads", key.heads},
                    {"kv_heads", key.kv_heads},
                    {"head_dim", key.head_dim}};
  AddChoice(choice, &described);
  return described;
}

bool ParseActivation(const Json& from, GateActivation* activation) {
  if (!from.contains("activation")) return true;
  std::string name;
  if (!Read(from, "activation", &name)) return false;
  *activation = name == "gelu" ? GateActivation::kGelu : GateActivation::kGeluTanh;
  return name == "gelu" || name == "gelu_tanh";
}

bool ParseEntry(const Json& from, GatedKey* key, FusedChoice* choice) {
  return from.is_object() && ParseActivation(from, &key->activation) &&
         (!from.contains("rank") || Read(from, "rank", &key->rank)) &&
         Read(from, "backward", &key->backward) && Read(from, "rows", &key->rows) &&
         Read(from, "hidden", &key->hidden) && Read(from, "intermediate", &key->intermediate) &&
         ReadChoice(from, choice);
}

bool ParseEntry(const Json& from, LoraKey* key, FusedChoice* choice) {
  return from.is_object() && Read(from, "backward", &key->backward) &&
         Read(from, "rows", &key->rows) && Read(from, "in", &key->in) &&
         Read(from, "out", &key->out) && Read(from, "rank", &key->rank) &&
         Read(from, "members", &key->members) && ReadChoice(from, choice);
}

bool ParseEntry(const Json& from, RotatedKey* key, FusedChoice* choice) {
  return from.is_object() && Read(from, "rows", &key->rows) && Read(from, "in", &key->in) &&
         Read(from, "heads", &key->heads) && Read(from, "kv_heads", &key->kv_heads) &&
         Read(from, "head_dim", &key->head_dim) && ReadChoice(from, choice);
}

// The rows of a list of the table; false if one cannot be read.
template <typename Key, typename Choice>
bool ParseList(const Json& list, std::vector<std::pair<Key, Choice>>* rows) {
  if (!list.is_array()) return false;
  rows->resize(list.size());
  for (size_t i = 0; i < rows->size(); ++i) {
    if (!ParseEntry(list[i], &(*rows)[i].first, &(*rows)[i].second)) return false;
  }
  return true;
}

// Of a map of choices; under the lock of its owner.
template <typename Key>
std::optional<FusedChoice> FindIn(std::map<Key, FusedChoice>* choices, const Key& key) {
  const auto found = choices->find(key);
  if (found == choices->end()) return std::nullopt;
  found->second.used = true;
  return found->second;
}
template <typename Key>
FusedChoice RememberIn(std::map<Key, FusedChoice>* choices, const Key& key,
                       const FusedChoice& choice) {
  FusedChoice& kept = (*choices)[key];
  if (!kept.settled) kept = choice;
  kept.used = true;
  return kept;
}
template <typename Key>
Json ListOf(const std::map<Key, FusedChoice>& choices, Rows rows) {
  Json list = Json::array();
  for (const auto& [key, choice] : choices) {
    if (rows == Rows::kAll || choice.used) list.push_back(Describe(key, choice));
  }
  return list;
}

std::string DeviceName() {
  int device = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

}  // namespace

GemmChoices::GemmChoices()
    : device_(DeviceName()), library_(static_cast<int64_t>(cublasLtGetVersion())) {}

GemmChoices& GemmChoices::Instance() {
  static GemmChoices choices;
  return choices;
}

std::optional<GemmEntry> GemmChoices::Find(const GemmKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  found->second.used = true;
  return found->second;
}

GemmChoice GemmChoices::Remember(const GemmKey& key, const GemmEntry& entry) {
  const std::lock_guard lock(mutex_);
  GemmEntry& kept = entries_[key];
  if (!kept.settled || !kept.checked) kept = entry;
  kept.used = true;
  return kept.choice;
}

std::optional<FusedChoice> GemmChoices::Find(const GatedKey& key) {
  const std::lock_guard lock(mutex_);
  return FindIn(&gated_, key);
}
FusedChoice GemmChoices::Remember(const GatedKey& key, const FusedChoice& choice) {
  const std::lock_guard lock(mutex_);
  return RememberIn(&gated_, key, choice);
}

std::optional<FusedChoice> GemmChoices::Find(const LoraKey& key) {
  const std::lock_guard lock(mutex_);
  return FindIn(&lora_, key);
}
FusedChoice GemmChoices::Remember(const LoraKey& key, const FusedChoice& choice) {
  const std::lock_guard lock(mutex_);
  return RememberIn(&lora_, key, choice);
}

std::optional<FusedChoice> GemmChoices::Find(const RotatedKey& key) {
  const std::lock_guard lock(mutex_);
  return FindIn(&rotated_, key);
}
FusedChoice GemmChoices::Remember(const RotatedKey& key, const FusedChoice& choice) {
  const std::lock_guard lock(mutex_);
  return RememberIn(&rotated_, key, choice);
}

void GemmChoices::ForgetUse() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) entry.used = false;
  for (auto& [key, choice] : gated_) choice.used = false;
  for (auto& [key, choice] : lora_) choice.used = false;
  for (auto& [key, choice] : rotated_) choice.used = false;
}

std::string GemmChoices::ToJson(Rows rows) {
  std::vector<std::pair<std::string, Json>> sorted;
  Json gated, lora, rotated;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (rows == Rows::kUsed && !entry.used) continue;
      Json described = Describe(key, entry.choice);
      std::string order = described.dump();
      sorted.emplace_back(std::move(order), std::move(described));
    }
    gated = ListOf(gated_, rows);
    lora = ListOf(lora_, rows);
    rotated = ListOf(rotated_, rows);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Json gemms = Json::array();
  for (auto& [order, described] : sorted) gemms.push_back(std::move(described));
  return Json{{"device", device_},         {"library", library_},
              {"gemms", std::move(gemms)}, {"gated", std::move(gated)},
              {"lora", std::move(lora)},   {"rotated", std::move(rotated)}}
      .dump(1);
}

bool GemmChoices::Load(const std::string& table) {
  const Json json = Json::parse(table, nullptr, /*allow_exceptions=*/false);
  std::string device;
  int64_t library = 0;
  if (!json.is_object() || !Read(json, "device", &device) || !Read(json, "library", &library) ||
      device != device_ || library != library_) {
    return false;
  }
  const auto gemms = json.find("gemms");
  const auto gated = json.find("gated");
  const auto lora = json.find("lora");
  const auto rotated = json.find("rotated");
  std::vector<std::pair<GemmKey, GemmChoice>> parsed;
  std::vector<std::pair<GatedKey, FusedChoice>> parsed_gated;
  std::vector<std::pair<LoraKey, FusedChoice>> parsed_lora;
  std::vector<std::pair<RotatedKey, FusedChoice>> parsed_rotated;
  if (gemms == json.end() || !ParseList(*gemms, &parsed)) return false;
  if (gated != json.end() && !ParseList(*gated, &parsed_gated)) return false;
  if (lora != json.end() && !ParseList(*lora, &parsed_lora)) return false;
  if (rotated != json.end() && !ParseList(*rotated, &parsed_rotated)) return false;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, choice] : parsed) {
    entries_[key] = {.choice = choice, .settled = true, .checked = false};
  }
  for (const auto& [key, choice] : parsed_gated) gated_[key] = choice;
  for (const auto& [key, choice] : parsed_lora) lora_[key] = choice;
  for (const auto& [key, choice] : parsed_rotated) rotated_[key] = choice;
  return true;
}

}  // namespace coxswain::kernels::cuda
