%% 1,000 groups post to 100,000 sessions, every 100 ms.
-module(pubsub).

-export([run/1]).

-define(SESSIONS, 100000).
-define(GROUPS, 1000).
-define(ROUNDS, 20).
-define(PERIOD_NS, 100000000).

run(Case) ->
    Sessions = lab:scaled(Case, ?SESSIONS),
    Rounds = case Case of #{"scale" := _} -> 3; _ -> ?ROUNDS end,
    Sink = self(),
    Histogram = histogram:new(),
    Joined = [join(Number, Rounds, Sink, Histogram) || Number <- lists:seq(0, Sessions - 1)],
    Members = maps:groups_from_list(fun({Group, _}) -> Group end, fun({_, Session}) -> Session end, lists:append(Joined)),
    Publishers = [spawn_link(fun() -> publisher(Subscribers, Rounds) end) || Subscribers <- maps:values(Members)],
    Begun = lab:now_ns(),
    [Publisher ! {start, Begun} || Publisher <- Publishers],
    {Counts, Totals} = lists:unzip(lab:collect(Sessions)),
    Seconds = (lab:now_ns() - Begun) / 1.0e9,
    Deliveries = lists:sum(Counts),
    lab:check("deliveries", Deliveries, Rounds * lists:sum([length(Own) || Own <- Joined])),
    lab:check("latencies", histogram:total(Histogram), Deliveries),
    [{latency_ms, lists:sum(Totals) / Deliveries / 1.0e6},
     {p99_ms, histogram:quantile(0.99, Histogram) / 1.0e6},
     {deliveries_per_s, Deliveries / Seconds}].

%% Spawns a session. Returns its pairs of group and process. There is no link: the end of each of
%% 100,000 linked sessions would cost time that grows with their number.
join(Number, Rounds, Sink, Histogram) ->
    {More, Random} = lab:below(4, lab:seed(Number)),
    Groups = groups(1 + More, Random, []),
    Session = spawn(fun() -> session(Rounds * length(Groups), 0, 0, Sink, Histogram) end),
    [{Group, Session} || Group <- Groups].

groups(0, _, Groups) -> lists:usort(Groups);
groups(Left, Random, Groups) ->
    {Group, Next} = lab:below(?GROUPS, Random),
    groups(Left - 1, Next, [Group | Groups]).

session(Posts, Posts, Total, Sink, _) -> Sink ! {result, {Posts, Total}};
session(Posts, Had, Total, Sink, Histogram) ->
    receive
        {post, Due} ->
            Latency = lab:now_ns() - Due,
            histogram:note(Latency, Histogram),
            session(Posts, Had + 1, Total + Latency, Sink, Histogram)
    end.

publisher(Subscribers, Rounds) ->
    receive {start, Begun} -> publish(0, Rounds, Begun, Subscribers) end.

publish(Rounds, Rounds, _, _) -> ok;
publish(Round, Rounds, Begun, Subscribers) ->
    Due = Begun + Round * ?PERIOD_NS,
    wait_until(Due),
    Post = {post, Due},
    [Subscriber ! Post || Subscriber <- Subscribers],
    publish(Round + 1, Rounds, Begun, Subscribers).

wait_until(Due) ->
    case Due - lab:now_ns() of
        Early when Early > 0 ->
            % Rounded up: a post that is sent before it is due would have a negative latency.
            receive after (Early + 999999) div 1000000 -> ok end;
        _ -> ok
    end.
