//! Customers by address: what the object does before it runs a request, and what is played of them.

use once::context::Bug;
use payments::engine::{Begin, Command, Context, ObjectState};
use payments::flows::customer::{Route, route};
use payments::payment::customer::CustomerRequest;
use payments::payment::operation::Operation;

use super::*;

/// What is decided on a request before it begins, as the object does it (`src/object/execute.rs`): under which key it runs, or what it is
/// told at once. One that comes after another one asks again here; the Worker waits for that one.
pub(crate) fn routed(
    state: &ObjectState,
    command: &Command,
    ctx: &Context,
) -> Result<Result<Command, Begin>, Bug> {
    let Operation::Customer(request) = &command.operation else { return Ok(Ok(command.clone())) };
    // The object answers its owner only.
    if state.keys.first().is_some_and(|first| first.owner != command.owner) {
        return Ok(Err(Begin::NotOwner));
    }
    Ok(match route(state, command, request, ctx)? {
        Route::Stands { response, original_request } => {
            Err(Begin::Replay { key_id: 0, response, original_request })
        }
        Route::Refused(refusal) => Err(Begin::Refused(refusal)),
        Route::After(_) => Err(Begin::Pending { retry_at_ms: 0, in_doubt: true }),
        Route::Run { key_hash, number } => {
            let request = CustomerRequest { number, ..CustomerRequest::clone(request) };
            Ok(Command { key_hash, operation: Operation::Customer(Box::new(request)), ..command.clone() })
        }
    })
}

/// Without what keeps a customer alone there are two of an address: each of these is missed, and by that invariant.
#[test]
fn without_its_protections_an_address_has_two_customers() {
    let disabled = [
        (Disabled::CustomerObject, ONE_CUSTOMER),
        (Disabled::Core(Mutant::FreshProviderKey), ONE_CUSTOMER),
        (Disabled::Core(Mutant::FailAfterTimeout), ONE_CUSTOMER),
        (Disabled::Core(Mutant::NoLeaseCheck), STALE),
    ];
    for (disabled, invariant) in disabled {
        let all = CUSTOMERS.iter().flat_map(|scenario| singles(WORLD, scenario, play));
        let broken = all.map(|name| (played_on(&name, disabled), name));
        let missed = broken.filter_map(|(violations, name)| {
            violations.into_iter().find(|broken| broken.invariant == invariant).map(|broken| (name, broken))
        });
        let (name, violation) =
            missed.into_iter().next().unwrap_or_else(|| panic!("{disabled:?} is not missed by {invariant}"));
        println!("{:<28} missed by {name}: {}", format!("{disabled:?}"), violation.seen);
    }
}

/// All that is broken in a scenario.
fn played_on(name: &Name, disabled: Disabled) -> Vec<Violation> {
    let Name::Scenario(_, scenario, faults) = name else { return Vec::new() };
    let world =
        World::new(named(scenario), Plan::Exactly(faults.clone()), Rng::new(1), Some(disabled), false);
    world.played_on().play().violations
}
