//! Reports that wait for a shard.

#[cfg(test)]
use super::*;

/// There are as many as a run takes up, and they came first.
#[test]
fn reports_that_wait_hold_up_no_other() {
    let mut world = World::over_shards(1, Protection::Real);
    let waits = world.reports.remove(0);
    let mut lines = waits.lines();
    let (head, line) = (lines.next().unwrap(), lines.next().unwrap());
    // For what is of nobody's merchant account no shard is asked.
    let other = format!("{head}\r\n{}\r\n", line.replacen(SHOP, "Nobodys_ECOM", 1));
    world.reports = vec![waits; 5];
    world.reports.push(other);
    world.keeps_reports();
    let shard = world.shards.borrow().keys().next().cloned();
    world.down.replace(shard);
    for _ in 0..2 {
        block(world.imports(Limits::default()));
    }
    assert_eq!(world.errors.take(), Vec::<String>::new());
    let waiting = world.d1.query_row(
        "SELECT group_concat(report_id, ' ') FROM (SELECT * FROM reports WHERE state = 'waiting' ORDER BY report_id)",
        (),
        |row| row.get::<_, String>(0),
    );
    assert_eq!(waiting.unwrap(), "0 1 2 3 4");
}
