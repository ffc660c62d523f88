#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/hub/api/repository.h"
#include "common/hub/download_options.h"

namespace coxswain::hub {
namespace {

using Names = std::vector<std::string>;

Names Selected(RepositoryType type, const Names& include, const Names& paths) {
  std::vector<HubFile> files;
  for (const std::string& path : paths) files.push_back({.path = path});
  const auto selected = SelectFiles(*MakeRepository(type, "org/name"), include, files);
  Names names;
  if (!selected.ok()) return {std::string(selected.status().message())};
  for (const HubFile& file : *selected) names.push_back(file.path);
  return names;
}

Names OfModel(const Names& paths) { return Selected(RepositoryType::kModel, {}, paths); }

TEST(FileSelectionTest, OfAModelComesWhatTrainingReads) {
  const Names wanted = {"LICENSE",
                        "additional_chat_templates/tools.jinja",
                        "chat_template.jinja",
                        "config.json",
                        "generation_config.json",
                        "merges.txt",
                        "model-00001-of-00002.safetensors",
                        "model-00002-of-00002.safetensors",
                        "model.safetensors.index.json",
                        "special_tokens_map.json",
                        "tokenizer.json",
                        "tokenizer.model",
                        "tokenizer_config.json",
                        "vocab.json"};
  Names paths = wanted;
  for (const char* other :
       {".gitattributes", "README.md", "onnx/model.onnx", "model.onnx", "tf_model.h5",
        "flax_model.msgpack", "model-q4.gguf", "original/consolidated.00.pth",
        "original/params.json", "consolidated.safetensors", "pytorch_model-00001-of-00002.bin",
        "runs/events", "unet/model.safetensors", "model.fp16.safetensors", "training_args.bin",
        "optimizer.pt", "images/a.png"}) {
    paths.push_back(other);
  }
  EXPECT_EQ(OfModel(paths), wanted);
}

TEST(FileSelectionTest, WeightsComeInOneForm) {
  EXPECT_EQ(OfModel({"a.safetensors", "b.safetensors", "pytorch_model.bin"}),
            (Names{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(OfModel({"pytorch_model-1-of-2.bin", "pytorch_model-2-of-2.bin", "rng.bin"}),
            (Names{"pytorch_model-1-of-2.bin", "pytorch_model-2-of-2.bin"}));
  EXPECT_EQ(OfModel({"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}),
            (Names{"adapter_config.json", "adapter_model.safetensors"}));
  EXPECT_EQ(OfModel({"adapter_config.json", "adapter_model.bin"}),
            (Names{"adapter_config.json", "adapter_model.bin"}));
}

TEST(FileSelectionTest, OfADatasetComesEverything) {
  const Names all = {".gitattributes", "README.md", "data/train-00000-of-00001.parquet"};
  EXPECT_EQ(Selected(RepositoryType::kDataset, {}, all), all);
}

TEST(FileSelectionTest, PatternsChooseAsHuggingfaceHubDoes) {
  const Names all = {"README.md", "a/x.json", "a/b/y.json", "a/z.txt"};
  EXPECT_EQ(Selected(RepositoryType::kModel, {"*.json"}, all), (Names{"a/x.json", "a/b/y.json"}));
  EXPECT_EQ(Selected(RepositoryType::kModel, {"a/b/", "README.??"}, all),
            (Names{"README.md", "a/b/y.json"}));
}

TEST(FileSelectionTest, NothingIsSaidWithWhatThereIs) {
  EXPECT_EQ(Selected(RepositoryType::kModel, {"*.x", "*.y"}, {"a", "b"}),
            Names{"model org/name at main has no file that matches *.x, *.y; it has a, b"});
  EXPECT_EQ(OfModel({"1", "2", "3", "4", "5", "6"}),
            Names{"model org/name at main has no file of a model that can be trained; it has 1, 2, "
                  "3, 4, 5 and more"});
}

}  // namespace

}  // namespace coxswain::hub
