// Invariant proto-1: field numbers keep their meaning. The golden file lists every message, field,
// enum value and RPC; a change of the wire shows up as a difference of this file in review.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "coxswain/v1/jobs_service.pb.h"
#include "coxswain/v1/plan.pb.h"
#include "coxswain/v1/registry_service.pb.h"
#include "coxswain/v1/relay_service.pb.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::ServiceDescriptor;

void Describe(const EnumDescriptor& type, std::ostream& out) {
  for (int i = 0; i < type.value_count(); ++i) {
    out << "enum " << type.full_name() << "." << type.value(i)->name() << " = "
        << type.value(i)->number() << "\n";
  }
}

void Describe(const Descriptor& message, std::ostream& out) {
  out << "message " << message.full_name() << "\n";
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    out << "  " << field.number() << " " << (field.is_repeated() ? "repeated " : "")
        << (field.message_type() != nullptr ? field.message_type()->full_name()
            : field.enum_type() != nullptr  ? field.enum_type()->full_name()
                                            : field.type_name())
        << " " << field.name() << "\n";
  }
  for (int i = 0; i < message.nested_type_count(); ++i) Describe(*message.nested_type(i), out);
}

void Describe(const ServiceDescriptor& service, std::ostream& out) {
  for (int i = 0; i < service.method_count(); ++i) {
    const auto& rpc = *service.method(i);
    out << "rpc " << rpc.full_name() << (rpc.client_streaming() ? " stream " : " ")
        << rpc.input_type()->full_name() << (rpc.server_streaming() ? " stream " : " ")
        << rpc.output_type()->full_name() << "\n";
  }
}

std::string DescribeFile(const FileDescriptor& file) {
  std::ostringstream out;
  for (int i = 0; i < file.enum_type_count(); ++i) Describe(*file.enum_type(i), out);
  for (int i = 0; i < file.message_type_count(); ++i) Describe(*file.message_type(i), out);
  for (int i = 0; i < file.service_count(); ++i) Describe(*file.service(i), out);
  return out.str();
}

TEST(DescriptorTest, WireIsTheRecordedOne) {
  std::string wire;
  for (const FileDescriptor* file :
       {v1::Error::descriptor()->file(), v1::Job::descriptor()->file(),
        v1::Plan::descriptor()->file(), v1::JobEvent::descriptor()->file(),
        v1::RegisterRequest::descriptor()->file(), v1::HostCommands::descriptor()->file(),
        v1::Command::descriptor()->file(), v1::SubmitRequest::descriptor()->file()}) {
    wire += DescribeFile(*file);
  }
  std::ifstream in("tests/proto/wire.txt");
  std::ostringstream golden;
  golden << in.rdbuf();
  if (wire != golden.str()) std::ofstream("build/wire.txt") << wire;
  EXPECT_EQ(wire, golden.str()) << "the wire changed; if no landed field number changed meaning, "
                                   "copy build/wire.txt to tests/proto/wire.txt";
}

}  // namespace
}  // namespace coxswain
