%% 120 processes send pings to each other: each waits for a pong before its next ping.
-module(big).

-export([run/1]).

-define(ACTORS, 120).
-define(PINGS, 20000).

run(Case) ->
    Pings = lab:scaled(Case, ?PINGS),
    Watch = lab:start_watch(),
    Sink = self(),
    Actors = [spawn_link(fun() -> wait(Number, Pings, Sink) end) || Number <- lists:seq(0, ?ACTORS - 1)],
    Table = list_to_tuple(Actors),
    [Actor ! {start, Table} || Actor <- Actors],
    Pongs = lists:sum(lab:collect(?ACTORS)),
    Reading = lab:stop(Watch),
    lab:check("pongs", Pongs, ?ACTORS * Pings),
    Reading.

wait(Number, Pings, Sink) ->
    receive {start, Table} -> ok end,
    ping(0, Pings, Number, lab:seed(Number), Table, {ping, self()}, Sink).

ping(Pongs, Pongs, _, _, _, _, Sink) ->
    Sink ! {result, Pongs},
    answer();
ping(Pongs, Pings, Own, Random, Table, Ping, Sink) ->
    {Other, Next} = case lab:below(?ACTORS, Random) of
        {Own, State} -> {(Own + 1) rem ?ACTORS, State};
        Drawn -> Drawn
    end,
    element(Other + 1, Table) ! Ping,
    await(Pongs, Pings, Own, Next, Table, Ping, Sink).

await(Pongs, Pings, Own, Random, Table, Ping, Sink) ->
    receive
        {ping, From} ->
            From ! pong,
            await(Pongs, Pings, Own, Random, Table, Ping, Sink);
        pong ->
            ping(Pongs + 1, Pings, Own, Random, Table, Ping, Sink)
    end.

answer() ->
    receive {ping, From} -> From ! pong, answer() end.
