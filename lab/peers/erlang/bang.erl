%% 1,000 processes send 1,000 messages each to one receiver, without waiting.
-module(bang).

-export([run/1]).

-define(SENDERS, 1000).
-define(MESSAGES, 1000).

run(Case) ->
    Messages = lab:scaled(Case, ?MESSAGES),
    Watch = lab:start_watch(),
    Main = self(),
    % The senders put their messages beside the receiver's heap: its collections then need not
    % copy a queue of up to a million.
    Receiver = spawn_opt(fun() -> receiver(?SENDERS * Messages, Main) end, [link, {message_queue_data, off_heap}]),
    Senders = [spawn_link(fun() -> sender(Number, Messages, Receiver) end) || Number <- lists:seq(0, ?SENDERS - 1)],
    [Sender ! go || Sender <- Senders],
    [{Count, Sum}] = lab:collect(1),
    Reading = lab:stop(Watch),
    lab:check("messages", Count, ?SENDERS * Messages),
    lab:check("the sum", Sum, Messages * (?SENDERS * (?SENDERS - 1) div 2)),
    Reading.

sender(Number, Messages, Receiver) ->
    receive go -> send(Messages, Number, Receiver) end.

send(0, _, _) -> ok;
send(Left, Number, Receiver) ->
    Receiver ! Number,
    send(Left - 1, Number, Receiver).

receiver(Messages, Main) ->
    Main ! {result, count(0, 0, Messages)}.

count(Messages, Sum, Messages) -> {Messages, Sum};
count(Count, Sum, Messages) ->
    receive Number when is_integer(Number) -> count(Count + 1, Sum + Number, Messages) end.
