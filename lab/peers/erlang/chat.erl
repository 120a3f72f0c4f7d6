%% A chat server: sessions send messages to friends and to groups. README.md has the details that
%% every language keeps to.
-module(chat).

-export([run/1, session/1]).

-define(SESSIONS_PER_GROUP, 100).
-define(FRIENDS, 100).
-define(GROUPS, 10).
-define(BLOCKED, 5).
-define(LONGEST, 1024).
-define(GROUP_PERCENT, 5).
-define(FLIGHT, 1000).
-define(CACHE, 8).
-define(QUANTILES, [
    {p1_us, 0.01}, {p10_us, 0.1}, {p25_us, 0.25}, {p50_us, 0.5}, {p75_us, 0.75}, {p90_us, 0.9}, {p99_us, 0.99},
    {p999_us, 0.999}
]).

%% All that does not change: a persistent term, which is read without a copy. `sessions` and
%% `groups` are the directory: the process of each number.
-record(world, {sessions, groups, store, pool, latencies, sent, stop, main}).

%% A message in flight carries a generator, which draws all that the next message needs. It is the
%% state of that generator, or `none`.

%% `inward` and `outward` are the states of the ciphers between this session and its client. A
%% cipher that is set up for each message would cost three to four times as much.
-record(session, {
    number, friends, groups, blocked, inward, outward,
    cache = [], sent = 0, to_groups = 0, delivered = 0, refused = 0
}).

run(#{"threads" := Sessions, "processors" := Processors, "seconds" := Seconds} = Case) ->
    code:which(crypto) =/= non_existing orelse error({wrong, "erlang-crypto is not installed"}),
    cipher_is_right(),
    Groups = max(1, Sessions div ?SESSIONS_PER_GROUP),
    Tokens = lab:scaled(Case, ?FLIGHT) * Processors,
    World = #world{
        store = spawn_link(fun() -> store(0, 0) end),
        pool = pool(),
        latencies = histogram:new(),
        sent = counters:new(1, [write_concurrency]),
        stop = atomics:new(1, []),
        main = self()
    },
    Before = resident_bytes(),
    {SessionPids, GroupPids, Sizes} = populate(Sessions, Groups),
    Each = max(0, resident_bytes() - Before) / Sessions,
    persistent_term:put(chat, World#world{sessions = SessionPids, groups = GroupPids}),

    Begun = lab:now_ns(),
    [proceed(lab:seed(T), persistent_term:get(chat)) || T <- lists:seq(0, Tokens - 1)],
    receive after round(Seconds * 1000) -> ok end,
    Delivered = histogram:total(World#world.latencies),
    Sent = counters:get(World#world.sent, 1),
    Elapsed = (lab:now_ns() - Begun) / 1.0e9,
    atomics:put(World#world.stop, 1, 1),
    [receive retired -> ok end || _ <- lists:seq(1, Tokens)],
    audit(World, SessionPids, GroupPids, Sizes),
    Quantile = fun(Share) -> histogram:quantile(Share, World#world.latencies) / 1.0e3 end,
    [{deliveries_per_s, Delivered / Elapsed},
     {sent_per_s, Sent / Elapsed},
     {resident_bytes, Each},
     {max_us, histogram:greatest(World#world.latencies) / 1.0e3}
     | [{Name, Quantile(Share)} || {Name, Share} <- ?QUANTILES]].

%% The processes.

%% Spawns all sessions and groups. Returns their processes, and the number of each group's
%% subscribers.
populate(Sessions, Groups) ->
    GroupPids = list_to_tuple([spawn(fun() -> group([], 0) end) || _ <- lists:seq(1, Groups)]),
    SessionPids = list_to_tuple([settle(Number, Sessions, GroupPids) || Number <- lists:seq(0, Sessions - 1)]),
    Sizes = [ask(Group, settle) || Group <- tuple_to_list(GroupPids)],
    erlang:garbage_collect(),
    {SessionPids, GroupPids, Sizes}.

%% Spawns a session and subscribes it to its groups.
settle(Number, Sessions, GroupPids) ->
    {FriendCount, R1} = lab:below(?FRIENDS, lab:seed(Number)),
    {Friends, R2} = draw(1 + FriendCount, Sessions, R1, []),
    {GroupCount, R3} = lab:below(?GROUPS, R2),
    {Drawn, R4} = draw(1 + GroupCount, tuple_size(GroupPids), R3, []),
    Groups = distinct(Drawn, []),
    {BlockedCount, R5} = lab:below(?BLOCKED + 1, R4),
    {Blocked, _} = draw(BlockedCount, Sessions, R5, []),
    State = #session{
        number = Number,
        friends = list_to_tuple(Friends),
        groups = list_to_tuple(Groups),
        blocked = Blocked
    },
    % Only what it lives on stays in the memory of a session that waits for its first message.
    Main = self(),
    Session = spawn(fun() -> begin_session(State, Main) end),
    receive settled -> ok end,
    [element(Group + 1, GroupPids) ! {join, Session} || Group <- Groups],
    Session.

draw(0, _, Random, Drawn) -> {lists:reverse(Drawn), Random};
draw(Left, Bound, Random, Drawn) ->
    {Number, Next} = lab:below(Bound, Random),
    draw(Left - 1, Bound, Next, [Number | Drawn]).

%% Returns the numbers in the order of their first occurrence.
distinct([], Known) -> lists:reverse(Known);
distinct([Number | Rest], Known) ->
    case lists:member(Number, Known) of
        true -> distinct(Rest, Known);
        false -> distinct(Rest, [Number | Known])
    end.

begin_session(#session{number = Number} = State, Main) ->
    Ready = State#session{inward = cipher(Number, inward), outward = cipher(Number, outward)},
    Main ! settled,
    erlang:hibernate(?MODULE, session, [Ready]).

session(State) ->
    receive
        {send, Token} ->
            session(send(Token, State));
        {message, Message, Token} ->
            session(deliver(Message, Token, State));
        {counts, From} ->
            #session{sent = Sent, to_groups = ToGroups, delivered = Delivered, refused = Refused} = State,
            From ! {counts, self(), {Sent, ToGroups, Delivered, Refused}},
            session(State)
    end.

%% The client's message has come: decrypts it, finds its receiver, logs it twice, forwards it.
send(Token, #session{number = Own, cache = Cache} = State) ->
    World = persistent_term:get(chat),
    Begun = lab:now_ns(),
    {More, R1} = lab:below(?LONGEST, Token),
    Length = More + 1,
    Plain = crypto:crypto_update(State#session.inward, binary:part(World#world.pool, 0, Length)),
    {Percent, R2} = lab:below(100, R1),
    {Receiver, Header, ToGroups, R4} = case Percent < ?GROUP_PERCENT of
        true ->
            {Group, R3} = pick(State#session.groups, R2),
            {element(Group + 1, World#world.groups), {group, Group, Length, Begun}, 1, R3};
        false ->
            {Friend, R3} = pick(State#session.friends, R2),
            {element(Friend + 1, World#world.sessions), {friend, Friend, Length, Begun}, 0, R3}
    end,
    World#world.store ! {log, Own, Length},
    counters:add(World#world.sent, 1, 1),
    Receiver ! {message, {Own, Begun, Plain}, R4},
    State#session{
        cache = lists:sublist([Header | Cache], ?CACHE),
        sent = State#session.sent + 1,
        to_groups = State#session.to_groups + ToGroups
    }.

pick(Numbers, Random) ->
    {At, Next} = lab:below(tuple_size(Numbers), Random),
    {element(At + 1, Numbers), Next}.

%% Encrypts a message for the client, unless its sender is blocked.
deliver({From, Begun, Plain}, Token, #session{blocked = Blocked} = State) ->
    World = persistent_term:get(chat),
    Counted = case lists:member(From, Blocked) of
        true ->
            State#session{refused = State#session.refused + 1};
        false ->
            Length = byte_size(Plain),
            <<_:Length/binary>> = crypto:crypto_update(State#session.outward, Plain),
            histogram:note(lab:now_ns() - Begun, World#world.latencies),
            State#session{delivered = State#session.delivered + 1}
    end,
    proceed(Token, World),
    Counted.

%% Lets a random session send the next message, if this was the message's last delivery.
proceed(none, _) -> ok;
proceed(Token, World) ->
    case atomics:get(World#world.stop, 1) of
        0 ->
            {Number, Next} = lab:below(tuple_size(World#world.sessions), Token),
            element(Number + 1, World#world.sessions) ! {send, Next};
        1 ->
            World#world.main ! retired
    end.

%% The token goes to the last subscriber.
group(Subscribers, Messages) ->
    receive
        {message, Message, Token} ->
            case Subscribers of
                [] -> proceed(Token, persistent_term:get(chat));
                _ -> forward(Subscribers, {message, Message, none}, {message, Message, Token})
            end,
            group(Subscribers, Messages + 1);
        {join, Session} ->
            group([Session | Subscribers], Messages);
        {settle, From} ->
            % In the order in which they joined.
            Ordered = lists:reverse(Subscribers),
            From ! {settle, self(), length(Ordered)},
            erlang:garbage_collect(),
            group(Ordered, Messages);
        {counts, From} ->
            From ! {counts, self(), Messages},
            group(Subscribers, Messages)
    end.

forward([Last], _, Final) -> Last ! Final;
forward([Subscriber | Rest], Message, Final) ->
    Subscriber ! Message,
    forward(Rest, Message, Final).

store(Messages, Bytes) ->
    receive
        {log, _, Length} -> store(Messages + 1, Bytes + Length);
        {counts, From} -> From ! {counts, self(), {Messages, Bytes}}, store(Messages, Bytes)
    end.

ask(Process, What) ->
    Process ! {What, self()},
    receive {What, Process, Answer} -> Answer end.

%% The check.

%% All tokens are retired, so all messages have been forwarded. What comes to a process from
%% another one before it is asked is counted.
audit(World, SessionPids, GroupPids, Sizes) ->
    ToGroup = [ask(Group, counts) || Group <- tuple_to_list(GroupPids)],
    Counts = [ask(Session, counts) || Session <- tuple_to_list(SessionPids)],
    {Sent, ToGroups, Delivered, Refused} = lists:foldl(fun add/2, {0, 0, 0, 0}, Counts),
    {Logged, _} = ask(World#world.store, counts),
    FanOut = lists:sum(lists:zipwith(fun(Messages, Size) -> Messages * Size end, ToGroup, Sizes)),
    lab:check("messages in the store", Logged, Sent),
    lab:check("messages to groups", lists:sum(ToGroup), ToGroups),
    lab:check("messages delivered or blocked", Delivered + Refused, Sent - ToGroups + FanOut),
    lab:check("latencies", histogram:total(World#world.latencies), Delivered).

add({A, B, C, D}, {E, F, G, H}) -> {A + E, B + F, C + G, D + H}.

%% The cipher.

%% Each direction of each session is one stream of ChaCha20, which begins at block 0.
cipher(Number, Direction) ->
    Key = <<Number:64/little, Number:64/little, Number:64/little, Number:64/little>>,
    Nonce = case Direction of inward -> 0; outward -> 1 end,
    crypto:crypto_init(chacha20, Key, <<0:32/little, Nonce:96/little>>, Direction =:= outward).

%% The bytes that clients send: pseudo-random, as if they were encrypted.
pool() -> pool(?LONGEST, lab:seed(0), <<>>).

pool(0, _, Pool) -> Pool;
pool(Left, Random, Pool) ->
    {Byte, Next} = lab:below(256, Random),
    pool(Left - 1, Next, <<Pool/binary, Byte>>).

%% The first bytes of the key stream of RFC 8439, section 2.3.2.
cipher_is_right() ->
    Key = list_to_binary(lists:seq(0, 31)),
    Vector = <<1:32/little, 0, 0, 0, 9, 0, 0, 0, 16#4A, 0, 0, 0, 0>>,
    Stream = crypto:crypto_one_time(chacha20, Key, Vector, <<0:64>>, true),
    lab:check("the cipher", Stream, <<16#10, 16#F1, 16#E7, 16#E4, 16#D1, 16#3B, 16#59, 16#15>>).

resident_bytes() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [KiB]} = re:run(Status, "VmRSS:\\s*(\\d+)", [{capture, all_but_first, binary}]),
    1024 * binary_to_integer(KiB).
