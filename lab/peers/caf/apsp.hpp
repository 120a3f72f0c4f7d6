// Shortest paths between 300 nodes, by 36 actors that hold a block of 50 x 50 each.
#pragma once

#include <array>
#include <memory>

#include "lab.hpp"

namespace apsp {

constexpr uint32_t size = 50;

using Weights = std::array<uint32_t, size * size>;

// The receivers of a block share it, and nobody changes it.
using Block = std::shared_ptr<const Weights>;

// The block of an actor at a step.
struct Message {
    uint32_t step, row, column;
    Block block;
};

} // namespace apsp

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(apsp::Message)

namespace apsp {

inline uint32_t weight(uint32_t i, uint32_t j) {
    return i == j ? 0 : static_cast<uint32_t>(lab::Random(i * 300 + j).below(100) + 1);
}

class Actor : public caf::event_based_actor {
public:
    Actor(caf::actor_config& config, uint32_t row, uint32_t column, uint32_t side, const lab::Table& table,
          caf::actor sink)
        : event_based_actor(config), row_(row), column_(column), side_(side), table_(table), sink_(std::move(sink)) {
        auto weights = std::make_shared<Weights>();
        for (uint32_t at = 0; at < size * size; ++at)
            (*weights)[at] = weight(row * size + at / size, column * size + at % size);
        own_ = std::move(weights);
    }

    caf::behavior make_behavior() override {
        return {
            [this](const Message& message) {
                if (!has_begun_ || message.step != step_)
                    later_.push_back(message);
                else
                    take(message);
                advance();
            },
            [this](lab::go_atom) {
                has_begun_ = true;
                begin();
                advance();
            },
        };
    }

private:
    // Sends the block to the row and the column, and takes what has come early.
    void begin() {
        Message message{step_, row_, column_, own_};
        for (uint32_t other = 0; other < side_; ++other) {
            if (other != column_)
                send(table_[row_ * side_ + other], message);
            if (other != row_)
                send(table_[other * side_ + column_], message);
        }
        left_ = 2 * (side_ - 1);
        from_ = to_ = own_;
        std::vector<Message> kept;
        for (auto& early : later_) {
            if (early.step == step_)
                take(early);
            else
                kept.push_back(std::move(early));
        }
        later_ = std::move(kept);
    }

    // The blocks above and below hold the way from k, those beside it the way to k.
    void take(const Message& message) {
        --left_;
        auto pivot = step_ / size;
        if (message.row == pivot && message.column == column_)
            from_ = message.block;
        if (message.column == pivot && message.row == row_)
            to_ = message.block;
    }

    void advance() {
        while (has_begun_ && left_ == 0) {
            compute();
            if (++step_ == side_ * size) {
                uint64_t sum = 0;
                for (auto distance : *own_)
                    sum += distance;
                send(sink_, sum);
                has_begun_ = false;
                return;
            }
            begin();
        }
    }

    void compute() {
        auto next = std::make_shared<Weights>();
        auto within = step_ % size;
        auto ways = from_->data() + within * size;
        for (uint32_t i = 0; i < size; ++i) {
            auto length = (*to_)[i * size + within];
            auto old = own_->data() + i * size;
            auto line = next->data() + i * size;
            for (uint32_t j = 0; j < size; ++j)
                line[j] = std::min(old[j], length + ways[j]);
        }
        own_ = std::move(next);
    }

    uint32_t row_, column_, side_;
    const lab::Table& table_;
    caf::actor sink_;
    Block own_, from_, to_;
    uint32_t step_ = 0, left_ = 0;
    bool has_begun_ = false;
    std::vector<Message> later_;
};

inline uint64_t sequential(uint32_t nodes) {
    std::vector<uint32_t> distances(nodes * nodes);
    for (uint32_t i = 0; i < nodes; ++i)
        for (uint32_t j = 0; j < nodes; ++j)
            distances[i * nodes + j] = weight(i, j);
    for (uint32_t k = 0; k < nodes; ++k)
        for (uint32_t i = 0; i < nodes; ++i)
            for (uint32_t j = 0; j < nodes; ++j)
                distances[i * nodes + j] =
                    std::min(distances[i * nodes + j], distances[i * nodes + k] + distances[k * nodes + j]);
    uint64_t sum = 0;
    for (auto distance : distances)
        sum += distance;
    return sum;
}

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    // A test has 2 x 2 blocks.
    uint32_t side = asked.scale > 1 ? 2 : 6;
    lab::Stopwatch watch;
    lab::Table table;
    table.reserve(side * side);
    for (uint32_t number = 0; number < side * side; ++number)
        table.push_back(self->spawn<Actor>(number / side, number % side, side, std::cref(table), caf::actor{self}));
    lab::start(self, table);
    uint64_t total = 0;
    for (uint32_t i = 0; i < side * side; ++i)
        self->receive([&](uint64_t sum) { total += sum; });
    auto reading = watch.stop();
    lab::check("the sum of distances", total, sequential(side * size));
    return reading;
}

} // namespace apsp
