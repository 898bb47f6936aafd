#include "text/typescript.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"

namespace plumb::text {
namespace {

using Schema = nlohmann::ordered_json;  // properties are shown in the order the tool's author gave them

// Insertion into an ordered object looks at every key before it; this keeps a hostile schema from being quadratic.
constexpr std::size_t kMaxProperties = 1024;

bool has_large_object(const nlohmann::json& value) {  // depth is bounded by the parser
  if (value.is_object() && value.size() > kMaxProperties) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), has_large_object);
}

const Schema& member(const Schema& object, const char* key) {
  static const Schema nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : nothing;
}

const std::string* text_of(const Schema& object, const char* key) {
  return member(object, key).get_ptr<const std::string*>();
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// Each line of `text` as a comment.
void comment(std::string& out, const std::string& indent, std::string_view text) {
  for (;;) {
    const std::size_t end = text.find('\n');
    out.append(indent).append("// ").append(text.substr(0, end)).append("\n");
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// A comment that has to stay on its line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool is_enum(const Schema& schema) { return member(schema, "enum").is_array() && !member(schema, "enum").empty(); }

// "default: VALUE", or empty. The members of an enumeration stand without quotes.
std::string default_of(const Schema& schema) {
  const Schema& value = member(schema, "default");
  if (value.is_null()) return {};
  const std::string* text = value.get_ptr<const std::string*>();
  if (text == nullptr) return "default: " + value.dump(-1, ' ', false, Schema::error_handler_t::replace);
  return "default: " + one_line(is_enum(schema) ? *text : quoted(*text));
}

std::string type_of(const Schema& schema, const std::string& indent);

std::string type_or_null(const Schema& schema, const std::string& indent) {
  std::string type = type_of(schema, indent);
  if (member(schema, "nullable") == true && type.find("null") == std::string::npos) type += " | null";
  return type;
}

std::string listed(const std::vector<std::string>& parts, const char* separator) {
  std::string out;
  for (const std::string& part : parts) out.append(out.empty() ? "" : separator).append(part);
  return out;
}

// One variant of a oneOf and what is said behind it.
std::string variant_of(const Schema& variant, const std::string& indent, bool described_above) {
  std::vector<std::string> notes;
  const std::string* description = text_of(variant, "description");
  if (description != nullptr && !described_above) notes.push_back(one_line(*description));
  if (const std::string value = default_of(variant); !value.empty()) notes.push_back(value);
  std::string out = indent + " | " + type_or_null(variant, indent + "   ");
  if (!notes.empty()) out += " // " + listed(notes, " ");
  return out;
}

void property(std::string& out, const std::string& name, const Schema& schema, bool required, const std::string& indent) {
  if (const std::string* title = text_of(schema, "title")) {
    comment(out, indent, *title);
    out.append(indent).append("//\n");
  }
  const std::string* description = text_of(schema, "description");
  const Schema& variants = member(schema, "oneOf");
  if (description != nullptr) comment(out, indent, *description);
  const Schema& examples = member(schema, "examples");
  if (examples.is_array() && !examples.empty()) {
    comment(out, indent, "Examples:");
    for (const Schema& example : examples) {
      if (const auto* text = example.get_ptr<const std::string*>()) comment(out, indent, "- " + quoted(*text));
    }
  }
  const std::string value = default_of(schema);
  const std::string head = indent + name + (required ? ":" : "?:");
  if (!variants.is_array()) {
    out += head + " " + type_or_null(schema, indent + "    ") + "," + (value.empty() ? "" : " // " + value) + "\n";
    return;
  }
  if (!value.empty()) comment(out, indent, value);
  out += head + "\n";
  // The description above the name stands for that of the first variant, and for any that repeats it.
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string* own = text_of(variants[i], "description");
    const bool described = description != nullptr && (i == 0 || (own != nullptr && *own == *description));
    out += variant_of(variants[i], indent, described) + "\n";
  }
  out.append(indent).append(",\n");
}

std::string object_type(const Schema& schema, const std::string& indent) {
  std::string out;
  if (const std::string* description = text_of(schema, "description")) comment(out, indent, *description);
  out += "{\n";
  const Schema& required = member(schema, "required");
  const Schema& properties = member(schema, "properties");
  if (properties.is_object()) {
    for (const auto& [name, value] : properties.items()) {
      const bool needed = required.is_array() && std::find(required.begin(), required.end(), Schema(name)) != required.end();
      property(out, name, value, needed, indent);
    }
  }
  return out + indent + "}";
}

std::string named_type(const std::string& name) { return name == "integer" ? "number" : name; }

std::string type_of(const Schema& schema, const std::string& indent) {
  const Schema& variants = member(schema, "oneOf");
  if (variants.is_array()) {
    std::string out;
    for (const Schema& variant : variants) out += "\n" + variant_of(variant, indent, false);
    return out;
  }
  const Schema& type = member(schema, "type");
  if (type.is_array()) {
    std::vector<std::string> names;
    for (const Schema& one : type) {
      if (const auto* name = one.get_ptr<const std::string*>()) names.push_back(named_type(*name));
    }
    return names.empty() ? "any" : listed(names, " | ");
  }
  if (type == "object") return object_type(schema, indent);
  if (type == "array") {
    const Schema& items = member(schema, "items");
    return items.is_null() ? "Array<any>" : type_of(items, indent) + "[]";
  }
  if (type == "string") {
    std::vector<std::string> values;
    if (is_enum(schema)) {
      for (const Schema& value : member(schema, "enum")) {
        if (const auto* text = value.get_ptr<const std::string*>()) values.push_back(quoted(*text));
      }
    }
    return values.empty() ? "string" : listed(values, " | ");
  }
  if (type == "number" || type == "integer" || type == "boolean") return named_type(type.get<std::string>());
  return "any";
}

Result<Schema> read_schema(std::string_view text, const std::string& subject, const ParseLimits& limits) {
  PLUMB_ASSIGN(const nlohmann::json checked, parse_json(text, subject, limits));  // duplicates, depth, size
  if (!checked.is_object()) return fail(ErrorCode::malformed, "a JSON schema must be an object", subject);
  if (has_large_object(checked)) {
    return fail(ErrorCode::limit_exceeded, "an object in a schema may have " + std::to_string(kMaxProperties) + " properties", subject);
  }
  Schema schema = Schema::parse(text, nullptr, false);
  if (schema.is_discarded()) return fail(ErrorCode::internal, "two readings of one schema differ", subject);
  return schema;
}

}  // namespace

Result<std::string> typescript_type(std::string_view schema, const std::string& subject, const ParseLimits& limits) {
  PLUMB_ASSIGN(const Schema read, read_schema(schema, subject, limits));
  return type_of(read, "");
}

Result<std::string> tool_section(const ToolNamespace& tools, const ParseLimits& limits) {
  std::string out = "## " + tools.name + "\n\n";
  if (tools.tools.empty()) return out + tools.description;
  if (!tools.description.empty()) comment(out, "", tools.description);
  out += "namespace " + tools.name + " {\n\n";
  for (const Tool& tool : tools.tools) {
    if (!tool.description.empty()) comment(out, "", tool.description);
    std::string arguments;
    if (!tool.parameters.empty()) {
      PLUMB_ASSIGN(const Schema schema, read_schema(tool.parameters, "tool " + tool.name, limits));
      if (!(member(schema, "type") == "object" && member(schema, "properties").empty())) arguments = "_: " + type_of(schema, "");
    }
    out += "type " + tool.name + " = (" + arguments + ") => any;\n\n";
  }
  return out + "} // namespace " + tools.name;
}

}  // namespace plumb::text
