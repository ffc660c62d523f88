#include "common/files/torch/torch_pickle.h"

#include "gtest/gtest.h"
#include "tests/common/files/torch_archive.h"

namespace coxswain {
namespace {

using archive::Class;
using archive::Number;
using archive::Pickle;
using archive::StateDict;
using archive::TensorPickle;
using archive::Text;
using archive::View;

const View kWeight{
    .name = "w", .key = "7", .elements = 6, .offset = 1, .shape = {2, 2}, .strides = {1, 2}};

std::string PickleRefusal(const std::string& pickle) {
  const auto views = ReadTorchPickle(pickle);
  if (views.ok()) return "read";
  EXPECT_EQ(views.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(views.status().message());
}

void ExpectSays(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(TorchPickleTest, ReadsTheTensorsOfAStateDict) {
  const auto views = ReadTorchPickle(StateDict({kWeight, {.name = "v", .storage = "HalfStorage"}}));
  ASSERT_TRUE(views.ok()) << views.status();
  ASSERT_EQ(views->size(), 2u);
  const TorchView& view = (*views)[0].view;
  EXPECT_EQ((*views)[0].name, "w");
  EXPECT_EQ(view.storage.key, "7");
  EXPECT_EQ(view.storage.dtype, ElementType::kF32);
  EXPECT_EQ(view.storage.elements, 6);
  EXPECT_EQ(view.offset, 1);
  EXPECT_EQ(view.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(view.strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ((*views)[1].view.storage.dtype, ElementType::kF16);
}

// A parameter in an OrderedDict with _metadata, by SETITEM, and the same tensor from the memo.
TEST(TorchPickleTest, ReadsWhatModulesSave) {
  const std::string dict = Class("collections", "OrderedDict") + "q\x03)R";
  const std::string tensor = TensorPickle(kWeight) + std::string("r\xff\xff\xff\xff", 5);
  const std::string parameter =
      Class("torch._utils", "_rebuild_parameter") + tensor + "\x88h\x03)R\x87R";
  const std::string state =
      "}" + Text("_metadata") + "h\x03)R(" + Text("") + "}" + Text("version") + "K\x01su" + "sb";
  const auto views = ReadTorchPickle(Pickle(dict + Text("a") + parameter + "s" + Text("b") +
                                            std::string("j\xff\xff\xff\xff", 5) + "s" + state));
  ASSERT_TRUE(views.ok()) << views.status();
  ASSERT_EQ(views->size(), 2u);
  EXPECT_EQ((*views)[1].view.storage.key, "7");
}

TEST(TorchPickleTest, AClassIsRefusedByNameAndPlace) {
  const std::string call = Class("os", "system") + Text("touch /tmp/x") + "\x85R";
  const std::string message = PickleRefusal(Pickle("}" + Text("w") + call + "s"));
  ExpectSays(message, "data.pkl, byte 9: it asks for os.system");
  ExpectSays(message, "save model.state_dict() as safetensors");
  ExpectSays(PickleRefusal(Pickle(Class("builtins", "eval") + Text("1") + "\x85R")),
             "builtins.eval");
  ExpectSays(PickleRefusal(Pickle(Class("__builtin__", "eval"))), "__builtin__.eval");
  ExpectSays(PickleRefusal(Pickle(Class("torch", "load"))), "torch.load");
  ExpectSays(PickleRefusal(Pickle(Class("torch._utils.os", "_rebuild_tensor_v2"))), "it asks for");
  ExpectSays(PickleRefusal(Pickle(Class("a\x1b[2Jb", "c"))), "a\\x1b[2Jb.c");
}

TEST(TorchPickleTest, AnOpcodeIsRefusedByName) {
  ExpectSays(PickleRefusal("\x80\x04\x95" + std::string(8, '\0') + "}."), "protocol 2");
  ExpectSays(PickleRefusal(Pickle(Text("os") + Text("system") + "\x93")), "STACK_GLOBAL");
  ExpectSays(PickleRefusal(Pickle("(cos\nsystem\no")), "it asks for os.system");
  ExpectSays(PickleRefusal(Pickle("(ios\nsystem\n")), "the opcode INST");
  ExpectSays(PickleRefusal(Pickle(")\x81")), "the opcode NEWOBJ");
  ExpectSays(PickleRefusal(Pickle("Pfile\n")), "the opcode PERSID");
  ExpectSays(PickleRefusal(Pickle("\x82\x01")), "the opcode EXT1");
  ExpectSays(PickleRefusal(Pickle("N0")), "the opcode POP");
  ExpectSays(PickleRefusal(Pickle("\x07")), "the opcode 0x07");
}

TEST(TorchPickleTest, OnlyTensorsUnderTheirNames) {
  ExpectSays(PickleRefusal(Pickle("}" + Text("epoch") + "K\x03s")), "\"epoch\" is a number");
  ExpectSays(PickleRefusal(Pickle("}" + Text("model") + "}s")), "\"model\" is a dict");
  ExpectSays(PickleRefusal(Pickle("}K\x01" + TensorPickle(kWeight) + "s")), "a key of its dict");
  ExpectSays(PickleRefusal(Pickle("]")), "it holds a list");
  ExpectSays(PickleRefusal(StateDict({kWeight, kWeight})), "\"w\" is there twice");
}

TEST(TorchPickleTest, CallsWithOtherArgumentsAreRefused) {
  const std::string rebuild = Class("torch._utils", "_rebuild_tensor_v2");
  ExpectSays(PickleRefusal(Pickle(rebuild + ")R")), "other arguments");
  ExpectSays(PickleRefusal(Pickle(Class("torch._utils", "_rebuild_parameter") + ")R")),
             "other arguments");
  ExpectSays(PickleRefusal(Pickle(Class("collections", "OrderedDict") + "K\x01\x85R")),
             "OrderedDict is called with arguments");
  ExpectSays(PickleRefusal(Pickle(Class("torch", "FloatStorage") + ")R")), "names a dtype");
  ExpectSays(PickleRefusal(Pickle("N)R")), "no class");
  ExpectSays(PickleRefusal(Pickle(Text("x") + "Q")), "a storage is not named");
  ExpectSays(PickleRefusal(StateDict({{.name = "w", .elements = -1}})), "a storage is not named");
  ExpectSays(PickleRefusal(StateDict({{.name = "w", .shape = {1, 1}, .strides = {1}}})),
             "2 extents and 1 strides");
  ExpectSays(PickleRefusal(StateDict({{.name = "w",
                                       .shape = std::vector<int64_t>(1000, 1),
                                       .strides = std::vector<int64_t>(1000, 1)}})),
             "other arguments");
}

TEST(TorchPickleTest, WhatIsNotThereIsNotTaken) {
  for (const char* opcodes : {"s",
                              "t",
                              "u",
                              "R",
                              "Q",
                              "b",
                              "a",
                              "e",
                              "h\x05",
                              "q\x05",
                              "(\x85",
                              "N(\x85",
                              "K\x01"
                              "a",
                              "}K\x01"
                              "b",
                              "}(K\x01u",
                              "K",
                              "X\x05",
                              "J\x01",
                              "cos",
                              "\x8a\x09"
                              "123456789"}) {
    EXPECT_NE(PickleRefusal(Pickle(opcodes)), "read") << opcodes;
  }
  ExpectSays(PickleRefusal(std::string("\x80\x02}", 3)), "ends without STOP");
  ExpectSays(PickleRefusal(Pickle("}") + "x"), "STOP does not end it");
  ExpectSays(PickleRefusal(Pickle("}}")), "STOP does not end it");
  ExpectSays(PickleRefusal(Pickle("X\xff\xff\xff\xffw")), "4294967295 bytes");
}

TEST(TorchPickleTest, DepthAndNumbersHaveBounds) {
  ExpectSays(PickleRefusal(Pickle(std::string(1'000'000, '('))), "more than 64 containers");
  // Tuples in tuples cost a value each, and no stack.
  ExpectSays(PickleRefusal(Pickle("N" + std::string(1'000'000, '\x85'))), "it holds a tuple");
  ExpectSays(PickleRefusal(Pickle(std::string(kMostPickleValues + 1, 'N'))), "values");
  std::string puts = "N";
  for (uint32_t place = 0; place <= kMostPickleValues; ++place) {
    puts += "r" + archive::Bytes(place * 1000);
  }
  ExpectSays(PickleRefusal(Pickle(puts)), "values");
  ExpectSays(PickleRefusal(std::string(kMostPickleBytes + 1, 'N')), "the limit is");
}

// Each tuple holds the one before twice: 2^60 items where they are copied.
TEST(TorchPickleTest, WhatIsUsedTwiceIsHeldOnce) {
  std::string bomb = "N";
  for (char i = 0; i < 60; ++i) bomb += std::string("q") + i + "h" + i + "\x86";
  ExpectSays(PickleRefusal(Pickle("}" + Text("w") + bomb + "s")), "\"w\" is a tuple");
}

}  // namespace
}  // namespace coxswain
