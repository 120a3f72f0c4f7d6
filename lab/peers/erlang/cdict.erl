%% 20 workers ask one process that owns a dictionary, and wait for each answer.
-module(cdict).

-export([run/1]).

-define(WORKERS, 20).
-define(REQUESTS, 10000).
-define(KEYS, 512).

run(#{"variant" := Variant} = Case) ->
    {Writes, Words} = case Variant of
        "-" -> {10, one};
        _ -> {20, list_to_integer(Variant)}
    end,
    Requests = lab:scaled(Case, ?REQUESTS),
    Watch = lab:start_watch(),
    Sink = self(),
    Dictionary = spawn_link(fun() -> dictionary(#{}, 0) end),
    [spawn_link(fun() -> worker(Number, Requests, Writes, Words, Dictionary, Sink) end)
     || Number <- lists:seq(0, ?WORKERS - 1)],
    {Answers, Written} = lists:unzip(lab:collect(?WORKERS)),
    Reading = lab:stop(Watch),
    Dictionary ! {count, self()},
    [Count] = lab:collect(1),
    lab:check("answers", lists:sum(Answers), ?WORKERS * Requests),
    lab:check("writes", Count, lists:sum(Written)),
    Reading.

worker(Number, Requests, Writes, Words, Dictionary, Sink) ->
    Sink ! {result, ask(Requests, lab:seed(Number), 0, 0, Writes, Words, Dictionary)}.

ask(0, _, Answers, Written, _, _, _) -> {Answers, Written};
ask(Left, Random, Answers, Written, Writes, Words, Dictionary) ->
    {Kind, Drawn} = lab:below(100, Random),
    {Key, Next} = lab:below(?KEYS, Drawn),
    case Kind < Writes of
        true ->
            Dictionary ! {write, self(), Key, value(Words, Left)},
            receive written -> ask(Left - 1, Next, Answers + 1, Written + 1, Writes, Words, Dictionary) end;
        false ->
            Dictionary ! {read, self(), Key},
            receive {value, _} -> ask(Left - 1, Next, Answers + 1, Written, Writes, Words, Dictionary) end
    end.

value(one, Word) -> Word;
value(Words, Word) -> erlang:make_tuple(Words, Word).

%% A value is copied when it is sent.
dictionary(Values, Writes) ->
    receive
        {read, From, Key} ->
            From ! {value, maps:get(Key, Values, none)},
            dictionary(Values, Writes);
        {write, From, Key, Value} ->
            From ! written,
            dictionary(Values#{Key => Value}, Writes + 1);
        {count, From} ->
            From ! {result, Writes}
    end.
