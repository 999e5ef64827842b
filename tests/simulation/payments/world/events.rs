//! What happens at a time, and who does it.

use super::*;
use payments::transitions::polling::Asker;

/// What happens at a time.
pub(crate) enum Event {
    Knock(usize),
    /// A request reaches the object of its key, where it is bound.
    Bind {
        from: Request,
        to: Option<usize>,
    },
    /// A request reaches the object in which it runs.
    Request {
        from: Request,
        to: Option<usize>,
    },
    Answer {
        to: Request,
        answer: Answer,
    },
    ClientGivesUp(Request),
    WaitOver(Request),
    /// A client has its key's response forgotten.
    Forget {
        client: usize,
        to: Option<usize>,
    },
    /// Somebody looks at a payment, or the alarm asks how it stands.
    Check {
        object: usize,
        to: Option<usize>,
        asker: Asker,
    },
    /// The next of these questions goes to the provider.
    Ask {
        instance: usize,
        questions: Vec<StatusQuery>,
    },
    StatusReply {
        instance: usize,
        questions: Vec<StatusQuery>,
        before: Ended,
        answer: Option<Box<HttpAnswer>>,
    },
    Step {
        run: u32,
        input: Input,
    },
    Arrive(Box<Delivery>),
    Executed(Box<Delivery>),
    /// The person who pays, or a bank, has decided.
    Decided {
        provider: &'static str,
        later: Later,
    },
    Response {
        exchange: u64,
        answer: Box<HttpAnswer>,
    },
    TimedOut {
        exchange: u64,
    },
    Page(Box<Asking>),
    PageAnswer(Box<Asking>, Box<HttpAnswer>),
    Alarm {
        object: usize,
        set: u64,
    },
    Ring {
        object: usize,
        set: u64,
    },
    Wake {
        object: usize,
        to: Option<usize>,
    },
    /// An incarnation gives the queue what is due.
    Drain {
        instance: usize,
    },
    /// A job comes out of the queue.
    Job(Box<Message>),
    /// An alarm was lost, and the sweep is due.
    Sweep {
        object: usize,
    },
    /// This secret is configured from now on.
    Secret(Secret),
    /// A provider sends an event, by its number.
    Tell(usize),
    /// An event reaches its object.
    Webhook {
        number: usize,
        to: Option<usize>,
    },
    /// What has just come into the inbox is worked on, by its keys.
    Inbox(Vec<String>),
    /// The clock works on what is due in the inbox.
    InboxClock,
    /// An operator settles a call by hand.
    Operator {
        object: usize,
        call_id: u32,
        to: Option<usize>,
    },
    /// After an event: an incarnation takes up what is due, without any alarm.
    Stir {
        instance: usize,
    },
    /// The shop makes a link to an order, or ends all that it has made.
    Link {
        object: usize,
        to: Option<usize>,
        ends: bool,
    },
}

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Knock(client) => self.knock(client),
            Event::Bind { from, to } => self.bind(from, to),
            Event::Request { from, to } => self.request(from, to),
            Event::Answer { to, answer } => self.answered(to, answer),
            Event::ClientGivesUp(request) => self.client_gives_up(request),
            Event::WaitOver(request) => self.wait_over(request),
            Event::Forget { client, to } => self.forget(client, to),
            Event::Check { object, to, asker } => self.check(object, to, asker),
            Event::Ask { instance, questions } => self.ask(instance, questions),
            Event::StatusReply { instance, questions, before, answer } => {
                self.told(instance, questions, before, answer);
            }
            Event::Step { run, input } => self.step(run, input),
            Event::Arrive(delivery) => self.arrive(*delivery),
            Event::Executed(delivery) => self.executed(*delivery),
            Event::Decided { provider, later } => self.decided(provider, later),
            Event::Response { exchange, answer } => self.response(exchange, &answer),
            Event::TimedOut { exchange } => self.timed_out(exchange),
            Event::Page(asking) => self.page(*asking),
            Event::PageAnswer(asking, answer) => self.page_answer(*asking, &answer),
            Event::Alarm { object, set } => self.alarm(object, set),
            Event::Ring { object, set } => self.ring(object, set),
            Event::Wake { object, to } => self.wake(object, to),
            Event::Drain { instance } => self.drain(instance),
            Event::Job(message) => self.job(*message),
            Event::Sweep { object } => self.sweep(object),
            Event::Secret(secret) => self.configure(secret),
            Event::Tell(number) => self.tell_event(number),
            Event::Webhook { number, to } => self.webhook(number, to),
            Event::Inbox(keys) => self.work_at_once(&keys),
            Event::InboxClock => self.work_by_the_clock(),
            Event::Operator { object, call_id, to } => self.operator(object, call_id, to),
            Event::Stir { instance } => self.stir(instance),
            Event::Link { object, to, ends } => self.link(object, to, ends),
        }
    }
}
