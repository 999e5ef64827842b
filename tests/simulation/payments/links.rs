//! The links to orders that a shop makes and ends, while the orders are paid.

use payments::flows::order_link;
use payments::payment::order_link::{EndedLinks, MadeLink};

use super::world::{Event, Reached, Transacted, World};
use crate::faults::MINUTE;
use crate::invariants::Writer;
use crate::rng::Rng;

impl World {
    /// Some orders have links: up to three are made, and all may be ended.
    pub(crate) fn make_links(&mut self) {
        let mut rng = Rng::new(self.rng.clone().roll().rotate_left(31));
        for object in 0..self.objects.len() {
            for _ in 0..rng.pick(&[0, 0, 1, 3]) {
                let ends = rng.permille(250);
                let at_ms = rng.between(0, 20 * MINUTE);
                self.after(at_ms, Event::Link { object, to: None, ends });
            }
        }
    }

    /// The shop's request reaches the object of the order.
    pub(crate) fn link(&mut self, object: usize, to: Option<usize>, ends: bool) {
        let again = |to| Event::Link { object, to: Some(to), ends };
        let Reached::Awake(instance, fault) = self.reach(object, to, again) else { return };
        let content = self.now_ms.to_string();
        let body = |rows: &mut _, _: &_, _: &_| {
            Ok(if ends {
                match order_link::end(rows, None) {
                    EndedLinks::Through(_) => "links: ended",
                    EndedLinks::Paid(_) => "links: not ended, the order is paid",
                    EndedLinks::KeyReused => unreachable!("no key was used"),
                }
            } else {
                match order_link::make(rows, None, &content, None) {
                    MadeLink::Paid(_) => "links: not made, the order is paid",
                    _ => "links: made",
                }
            })
        };
        if let Transacted::Done(what, _) = self.transact(instance, fault, Writer::Taker, body, |_, _, _| {}) {
            self.counters.count(what);
        }
    }
}
