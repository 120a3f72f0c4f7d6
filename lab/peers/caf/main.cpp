// The lab's experiments with CAF: one header for each. The program takes a case as JSON and prints
// its outcome as one line of JSON, as a child of the lab does.
//
// All actors are event-based and dynamically typed. They send with their own `send`, which keeps
// the receiver on the sender's worker. Messages are of types that CAF stores inside of the
// mailbox's element, so that a send allocates once.

#include "lab.hpp"

namespace {

using Run = lab::Reading (*)(const lab::Case&, caf::scoped_actor&);

// The command that builds the program includes the headers and names the experiments:
// -include big.hpp '-DEXPERIMENTS={"big", big::run}'
const std::map<std::string, Run> experiments = {EXPERIMENTS};

// Returns the text of a member: the case is one flat object.
std::string member(const std::string& json, const std::string& name, const std::string& absent) {
    auto key = "\"" + name + "\":";
    auto at = json.find(key);
    if (at == std::string::npos)
        return absent;
    at += key.size();
    if (json[at] == '"')
        return json.substr(at + 1, json.find('"', at + 1) - at - 1);
    return json.substr(at, json.find_first_of(",}", at) - at);
}

lab::Case case_of(const std::string& json) {
    lab::Case asked;
    asked.experiment = member(json, "experiment", "");
    asked.variant = member(json, "variant", "-");
    asked.processors = std::stoi(member(json, "processors", "1"));
    asked.scale = std::stoi(member(json, "scale", "1"));
    return asked;
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("a case is needed\n", stderr);
        return 2;
    }
    auto asked = case_of(argv[1]);
    auto experiment = experiments.find(asked.experiment);
    if (experiment == experiments.end()) {
        std::fprintf(stderr, "no experiment: %s\n", asked.experiment.c_str());
        return 2;
    }
    caf::actor_system_config config;
    config.set("scheduler.max-threads", static_cast<int64_t>(asked.processors));
    caf::actor_system system{config};
    caf::scoped_actor self{system};
    std::string line;
    for (auto& [name, value] : experiment->second(asked, self)) {
        char figure[100];
        std::snprintf(figure, sizeof figure, "%s\"%s\":%.6f", line.empty() ? "" : ",", name.c_str(), value);
        line += figure;
    }
    lab::finish("{\"measured\":{" + line + "}}");
}
