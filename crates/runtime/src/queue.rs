//! The way to the queues. Everything that sends a job sends it here.

use std::cell::OnceCell;
use std::time::Duration;

use messages::queue::{Queue, Queues};
use worker::{Env, MessageBuilder, QueueContentType, SendMessage};

use crate::http_client::within;

/// The queues that this Worker is bound to: they are the same as long as its isolate lives.
pub fn bound(env: &Env) -> Queues {
    thread_local! {
        static BOUND: OnceCell<Queues> = const { OnceCell::new() };
    }
    BOUND.with(|bound| *bound.get_or_init(|| Queues::bound(|name| env.queue(name).is_ok())))
}

/// The binding of the queue for a job of an object, whose id is given as hexadecimal digits.
pub fn binding(env: &Env, queue: Queue, object: &str) -> String {
    bound(env).binding(queue, object)
}

/// Sends these texts to the queue of a binding, each to come after so many seconds. They must fit into one batch.
pub async fn send<'a>(
    env: &Env,
    binding: &str,
    texts: impl IntoIterator<Item = (&'a str, u32)>,
    takes: Duration,
) -> worker::Result<()> {
    let queue = env.queue(binding)?;
    let messages: Vec<SendMessage<&str>> = texts.into_iter().map(message).collect();
    within(takes, "the queue", queue.send_batch(messages)).await
}

fn message((text, delay_s): (&str, u32)) -> SendMessage<&str> {
    let message = MessageBuilder::new(text).content_type(QueueContentType::Text);
    if delay_s > 0 { message.delay_seconds(delay_s).build() } else { message.build() }
}
