%% 20 workers ask one process that owns a sorted list, and wait for each answer.
-module(csll).

-export([run/1]).

-define(WORKERS, 20).
-define(REQUESTS, 8000).
-define(NUMBERS, 524287).

run(Case) ->
    Requests = lab:scaled(Case, ?REQUESTS),
    Watch = lab:start_watch(),
    Sink = self(),
    List = spawn_link(fun() -> list([]) end),
    [spawn_link(fun() -> worker(Number, Requests, List, Sink) end) || Number <- lists:seq(0, ?WORKERS - 1)],
    {Answers, Inserted} = lists:unzip(lab:collect(?WORKERS)),
    List ! {size, self()},
    Size = receive {answer, Counted} -> Counted end,
    Reading = lab:stop(Watch),
    lab:check("answers", lists:sum(Answers), ?WORKERS * Requests),
    lab:check("the size", Size, lists:sum(Inserted)),
    Reading.

worker(Number, Requests, List, Sink) ->
    Sink ! {result, ask(Requests, lab:seed(Number), 0, 0, List)}.

ask(0, _, Answers, Inserted, _) -> {Answers, Inserted};
ask(Left, Random, Answers, Inserted, List) ->
    case lab:below(100, Random) of
        {0, Next} ->
            List ! {size, self()},
            receive {answer, _} -> ask(Left - 1, Next, Answers + 1, Inserted, List) end;
        {Kind, Drawn} when Kind =< 10 ->
            {Value, Next} = lab:below(?NUMBERS, Drawn),
            List ! {insert, self(), Value},
            receive
                {answer, true} -> ask(Left - 1, Next, Answers + 1, Inserted + 1, List);
                {answer, false} -> ask(Left - 1, Next, Answers + 1, Inserted, List)
            end;
        {_, Drawn} ->
            {Value, Next} = lab:below(?NUMBERS, Drawn),
            List ! {contains, self(), Value},
            receive {answer, _} -> ask(Left - 1, Next, Answers + 1, Inserted, List) end
    end.

list(Values) ->
    receive
        {contains, From, Value} ->
            From ! {answer, contains(Value, Values)},
            list(Values);
        {insert, From, Value} ->
            case contains(Value, Values) of
                true ->
                    From ! {answer, false},
                    list(Values);
                false ->
                    From ! {answer, true},
                    list(insert(Value, Values))
            end;
        {size, From} ->
            From ! {answer, length(Values)},
            list(Values)
    end.

contains(Value, [Other | Rest]) when Other < Value -> contains(Value, Rest);
contains(Value, [Value | _]) -> true;
contains(_, _) -> false.

insert(Value, [Other | Rest]) when Other < Value -> [Other | insert(Value, Rest)];
insert(Value, Rest) -> [Value | Rest].
