#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/protobuf.h"
#include "bench/checkpoint/tensor_bundle.h"

namespace millrace::bench {
namespace {

// Field numbers of tensorflow/core/protobuf/meta_graph.proto and of the messages it uses.
namespace meta {
constexpr uint32_t kGraph = 2, kSaver = 3;
}  // namespace meta
namespace graph {
constexpr uint32_t kNode = 1;
}
namespace node {
constexpr uint32_t kName = 1, kOp = 2, kInput = 3, kAttribute = 5, kKey = 1, kValue = 2;
}
namespace attribute {
constexpr uint32_t kList = 1, kType = 6, kShape = 7, kTensor = 8;
}
namespace tensor {
constexpr uint32_t kType = 1, kShape = 2, kContent = 4, kTexts = 8;
}
namespace shape {
constexpr uint32_t kDimension = 2, kSize = 1;
}
namespace saver {
constexpr uint32_t kFilename = 1, kSave = 2, kRestore = 3;
}  // namespace saver

constexpr uint64_t kTextType = 7;  // DT_STRING
constexpr uint64_t kByteType = 4;  // DT_UINT8

// Writes the nodes of a GraphDef.
class GraphWriter {
 public:
  explicit GraphWriter(std::string& out) : proto_(out) {}

  template <typename WriteRest>
  void node(std::string_view name, std::string_view op, WriteRest&& write_rest) {
    proto_.message(graph::kNode, [&] {
      proto_.text(node::kName, name);
      proto_.text(node::kOp, op);
      write_rest();
    });
  }

  void input(std::string_view name) { proto_.text(node::kInput, name); }

  template <typename WriteValue>
  void attribute(std::string_view name, WriteValue&& write_value) {
    proto_.message(node::kAttribute, [&] {
      proto_.text(node::kKey, name);
      proto_.message(node::kValue, write_value);
    });
  }

  void type_attribute(std::string_view name, uint64_t number) {
    attribute(name, [&] { proto_.uint(attribute::kType, number); });
  }

  void types_attribute(std::span<const BundleTensor> tensors) {
    attribute("dtypes", [&] {
      proto_.message(attribute::kList, [&] {
        for (const BundleTensor& one : tensors) {
          proto_.uint(attribute::kType, tensorflow_type_number(one.type));
        }
      });
    });
  }

  void shape(uint32_t field, uint64_t count) {
    proto_.message(field, [&] {
      proto_.message(shape::kDimension, [&] { proto_.uint(shape::kSize, count); });
    });
  }

  // A constant with these texts: a scalar if `count` is 0. The last text fills up the rest.
  void text_constant(std::string_view name, uint64_t count,
                     std::span<const std::string_view> texts) {
    node(name, "Const", [&] {
      type_attribute("dtype", kTextType);
      attribute("value", [&] {
        proto_.message(attribute::kTensor, [&] {
          proto_.uint(tensor::kType, kTextType);
          if (count > 0) shape(tensor::kShape, count);
          if (count == 0) proto_.text(tensor::kShape, "");
          for (const std::string_view text : texts) proto_.text(tensor::kTexts, text);
        });
      });
    });
  }

 private:
  ProtobufWriter proto_;
};

std::string indexed(std::string_view name, char before, size_t i) {
  return i == 0 ? std::string(name) : fmt::format("{}{}{}", name, before, i);
}

// The variables, and what a Saver's restore() needs of a graph. Names and operations are those of
// TensorFlow 1, whose variables need no reading operation.
std::string saver_nodes(std::span<const BundleTensor> tensors) {
  std::string out;
  GraphWriter graph(out);
  for (const BundleTensor& one : tensors) {
    graph.node(one.key, "VariableV2", [&] {
      graph.type_attribute("dtype", tensorflow_type_number(one.type));
      graph.attribute("shape", [&] { graph.shape(attribute::kShape, one.count); });
    });
  }
  const std::string_view prefix[] = {"model"};
  const std::string_view whole[] = {""};
  std::vector<std::string_view> keys;
  for (const BundleTensor& one : tensors) keys.push_back(one.key);
  graph.text_constant("save/Const", 0, prefix);
  graph.text_constant("save/tensor_names", keys.size(), keys);
  graph.text_constant("save/shape_and_slices", keys.size(), whole);
  graph.node("save/RestoreV2", "RestoreV2", [&] {
    for (const char* name : {"save/Const", "save/tensor_names", "save/shape_and_slices"}) {
      graph.input(name);
    }
    graph.types_attribute(tensors);
  });
  for (size_t i = 0; i < tensors.size(); ++i) {
    graph.node(indexed("save/Assign", '_', i), "Assign", [&] {
      graph.input(keys[i]);
      graph.input(indexed("save/RestoreV2", ':', i));
      graph.type_attribute("T", tensorflow_type_number(tensors[i].type));
    });
  }
  graph.node("save/restore_all", "NoOp", [&] {
    for (size_t i = 0; i < tensors.size(); ++i) graph.input(indexed("^save/Assign", '_', i));
  });
  return out;
}

// What is before the graph. TensorFlow refuses a Saver without a name for saving.
std::string meta_fields() {
  std::string out;
  ProtobufWriter proto(out);
  proto.message(meta::kSaver, [&] {
    proto.text(saver::kFilename, "save/Const:0");
    proto.text(saver::kSave, "save/Const:0");
    proto.text(saver::kRestore, "save/restore_all");
  });
  return out;
}

// `before`, and then a field that ends with `inner` and `padding_bytes` more.
std::string enclosed(std::string before, uint32_t field, const std::string& inner,
                     uint64_t padding_bytes) {
  ProtobufWriter(before).head(field, inner.size() + padding_bytes);
  return before + inner;
}

// A constant that is the last thing of all messages around it, so that its elements are the end of
// the file.
std::string constant_node(std::string_view name, uint64_t padding_bytes) {
  std::string elements;
  GraphWriter(elements).shape(tensor::kShape, padding_bytes);
  ProtobufWriter(elements).uint(tensor::kType, kByteType);
  elements = enclosed(std::move(elements), tensor::kContent, {}, padding_bytes);
  const std::string value = enclosed({}, attribute::kTensor, elements, padding_bytes);
  std::string entry;
  ProtobufWriter(entry).text(node::kKey, "value");
  entry = enclosed(std::move(entry), node::kValue, value, padding_bytes);
  std::string fields;
  ProtobufWriter(fields).text(node::kName, name);
  ProtobufWriter(fields).text(node::kOp, "Const");
  GraphWriter(fields).type_attribute("dtype", kByteType);
  return enclosed(std::move(fields), node::kAttribute, entry, padding_bytes);
}

}  // namespace

PaddedFile saver_graph(std::span<const BundleTensor> tensors, uint64_t size_bytes) {
  const std::string graph = saver_nodes(tensors);
  PaddedFile file{.head = enclosed(meta_fields(), meta::kGraph, graph, 0), .tail = {}};
  const auto pad = [&](uint64_t padding_bytes, size_t longer_name) {
    const std::string constant =
        constant_node("constant" + std::string(longer_name, '_'), padding_bytes);
    file.head = enclosed(meta_fields(), meta::kGraph,
                         enclosed(graph, graph::kNode, constant, padding_bytes), padding_bytes);
    file.padding_bytes = padding_bytes;
  };
  constexpr uint64_t kConstantBytes = 128;  // more than a constant needs without its elements
  if (size_bytes < file.size_bytes() + kConstantBytes) return file;
  pad(size_bytes - file.size_bytes() - kConstantBytes, 0);
  // The lengths before the elements have varying lengths themselves. The name makes up for it.
  pad(file.padding_bytes, static_cast<size_t>(size_bytes - file.size_bytes()));
  return file;
}

}  // namespace millrace::bench
