//! What Adyen tells of disputes: each comes to an end of its own, whatever becomes of the others.

use super::*;
use messages::inspection::Inspection;
use payments::payment::dispute::Dispute;
use payments::payment::records::AuditRecord;

/// What is told of a dispute: the day, the kind of event, which dispute, and how much it is about.
type Notice = (u64, &'static str, &'static str, u64);

impl Harness {
    /// A payment whose money was taken at Adyen.
    fn charged() -> Self {
        let mut harness = Self::of(Provider::Adyen);
        let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
        harness.run("pay", pay(Provider::Adyen), Some(charged));
        harness
    }

    /// One that has heard this of its disputes.
    fn having_heard(told: impl IntoIterator<Item = Notice>) -> Self {
        let mut harness = Self::charged();
        for told in told {
            harness.hear_of_dispute(told);
        }
        harness
    }

    fn hear_of_dispute(&mut self, told: Notice) -> Ingested {
        self.hear_of_dispute_of(told, "psp_pay", "x")
    }

    /// As Adyen tells of its end: the payment is named by our reference alone.
    fn hear_of_its_end(&mut self, told: Notice) -> Ingested {
        let key = self.object_state.calls[0].provider_key.clone();
        self.hear_of_dispute_of(told, "", &format!("x.{key}"))
    }

    fn hear_of_dispute_of(&mut self, notice: Notice, original: &str, reference: &str) -> Ingested {
        self.hear_of_dispute_in("USD", notice, original, reference)
    }

    fn hear_of_dispute_in(
        &mut self,
        currency: &str,
        (day, code, id, amount): Notice,
        original: &str,
        reference: &str,
    ) -> Ingested {
        let item = serde_json::json!({ "eventCode": code, "success": "true", "eventDate": format!("2026-11-{day}T10:00:00+01:00"), "pspReference": id,
            "originalReference": original, "merchantAccountCode": "a-merchant", "merchantReference": reference,
            "amount": { "currency": currency, "value": amount } });
        let body =
            serde_json::json!({ "notificationItems": [{ "NotificationRequestItem": item }] }).to_string();
        let (event, _) = adyen::webhook::items(body.as_bytes()).unwrap().into_iter().next().unwrap().read();
        ingest::take(&mut self.object_state, &event, &at(NOW_MS + 1)).unwrap()
    }

    /// As a release of before has written it.
    fn written_before(&mut self) {
        let payment = self.object_state.resource.payment.as_mut().unwrap();
        let mut written = serde_json::to_value(&*payment).unwrap();
        written.as_object_mut().unwrap().remove("disputes");
        *payment = serde_json::from_value(written).unwrap();
    }

    /// The status, and how much can be given back, as the desk offers it.
    pub(super) fn refundable(&self) -> (&'static str, u64) {
        let status = self.object_state.resource.payment.as_ref().unwrap().status();
        let offered = Inspection::of(&self.object_state, Vec::new(), Vec::new(), Vec::new(), NOW_MS);
        (status, offered.refundable_minor)
    }

    /// Whether so much is given back where the API is asked to.
    fn gives_back(&self, amount: u64) -> bool {
        let mut state = self.object_state.clone();
        let reason = RefundReason::RequestedByCustomer;
        let request = RefundRequest { amount: AmountMinor::new(amount), reason, seen: None };
        let begun = begin(
            &mut state,
            &command("r", Operation::Refund(request)),
            &InstanceId("me".into()),
            &at(NOW_MS + 2),
        );
        matches!(begun.unwrap(), Begin::Run(_))
    }

    fn newest_record(&self) -> &AuditRecord {
        let is_of_dispute = |record: &&AuditRecord| record.action == "payment.disputed";
        self.object_state.appended.facts.audit.iter().rfind(is_of_dispute).unwrap()
    }

    /// The dispute that has moved, as the newest audit record says, and how all stand as one.
    fn moved(&self) -> [&str; 3] {
        let data = &self.newest_record().data;
        [&data["moved"]["id"], &data["moved"]["status"], &data["status"]].map(|part| part.as_str().unwrap())
    }

    /// What each dispute has withdrawn, as the newest audit record says.
    fn withdrawn(&self) -> Vec<(String, u64)> {
        let newest = self.newest_record();
        let each = newest.data["disputes"].as_array().unwrap();
        let withdrawn = each.iter().filter(|dispute| dispute["withdrawn"] == true);
        withdrawn
            .map(|dispute| (dispute["id"].as_str().unwrap().to_owned(), dispute["amount"].as_u64().unwrap()))
            .collect()
    }
}

/// The bank only asks: that forbids no refund. What it takes is lost once nobody defends it in time, and until then nothing is.
#[test]
fn a_dispute_at_adyen_comes_to_its_end() {
    let after = |codes: &[&'static str]| {
        let mut harness = Harness::charged();
        for (day, code) in (10..).zip(codes) {
            harness.hear_of_dispute((day, code, "D1", AMOUNT));
        }
        let dispute = harness.object_state.resource.payment.as_ref().unwrap().dispute.clone().unwrap();
        (dispute.status.as_str(), dispute.withdrawn, harness.gives_back(PART))
    };
    let asked = "REQUEST_FOR_INFORMATION";
    assert_eq!(after(&[asked]), ("open", false, true));
    let undefended = "DISPUTE_DEFENSE_PERIOD_ENDED";
    assert_eq!(after(&[asked, undefended]), ("won", false, true), "an inquiry is over with it");
    assert_eq!(after(&[asked, undefended, "CHARGEBACK"]), ("open", true, false));
    assert_eq!(after(&["NOTIFICATION_OF_CHARGEBACK", undefended]), ("open", false, false));
    assert_eq!(after(&["NOTIFICATION_OF_CHARGEBACK", undefended, "CHARGEBACK"]), ("lost", true, false));
    assert_eq!(
        after(&["NOTIFICATION_OF_CHARGEBACK", undefended, "CHARGEBACK", "CHARGEBACK_REVERSED"]),
        ("won", false, true)
    );
    assert_eq!(after(&["NOTIFICATION_OF_CHARGEBACK"]), ("open", false, false));
    assert_eq!(after(&[asked, "CHARGEBACK"]), ("open", true, false));
    let unwarned = "DISPUTE_OPENED_WITH_CHARGEBACK";
    assert_eq!(after(&[unwarned]), ("open", true, false));
    assert_eq!(after(&[unwarned, "CHARGEBACK", "DISPUTE_DEFENSE_PERIOD_ENDED"]), ("lost", true, false));
    assert_eq!(after(&["CHARGEBACK", "DISPUTE_DEFENSE_PERIOD_ENDED"]), ("lost", true, false));
    assert_eq!(
        after(&["CHARGEBACK", "CHARGEBACK_REVERSED", "ISSUER_RESPONSE_TIMEFRAME_EXPIRED"]),
        ("won", false, true)
    );
    assert_eq!(
        after(&["CHARGEBACK", undefended, "CHARGEBACK_REVERSED", "CHARGEBACK"]),
        ("open", true, false)
    );
    assert_eq!(after(&["CHARGEBACK", "CHARGEBACK_REVERSED", "PREARBITRATION_OPEN"]), ("open", false, false));
    let open = ["CHARGEBACK", "CHARGEBACK_REVERSED", "PREARBITRATION_OPEN"];
    let then = |codes: &[&'static str]| after(&[&open[..], codes].concat());
    assert_eq!(then(&["PREARBITRATION_ISSUER_WITHDRAWN"]), ("won", false, true));
    assert_eq!(then(&["PREARBITRATION_ACCEPTED"]), ("lost", true, false));
    assert_eq!(then(&["PREARBITRATION_DECLINED"]), ("open", false, false));
    assert_eq!(then(&["PREARBITRATION_DECLINED", "SCHEME_ARBITRATION"]), ("open", false, false));
    assert_eq!(after(&["CHARGEBACK", "SCHEME_ARBITRATION"]), ("open", true, false));
    assert_eq!(after(&["CHARGEBACK", "SCHEME_ARBITRATION_WON"]), ("won", false, true));
    assert_eq!(after(&["CHARGEBACK", "SCHEME_ARBITRATION_LOST"]), ("lost", true, false));
}

const LOST_AND_WON: [Notice; 4] = [
    (10, "CHARGEBACK", "D1", 3000),
    (11, "SECOND_CHARGEBACK", "D1", 3000),
    (12, "CHARGEBACK", "D2", 1000),
    (13, "CHARGEBACK_REVERSED", "D2", 1000),
];

#[test]
fn what_one_dispute_has_lost_stays_lost_when_another_one_is_won() {
    for is_old in [false, true] {
        let mut harness = Harness::charged();
        harness.hear_of_dispute((10, "CHARGEBACK", "D1", 3000));
        assert_eq!(harness.refundable(), ("disputed", 0));
        harness.hear_of_dispute((11, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000));
        assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000), "what was not lost can be given back");
        if is_old {
            harness.written_before();
        }
        harness.hear_of_dispute((12, "CHARGEBACK", "D2", 1000));
        assert_eq!(harness.refundable(), ("disputed", 0));
        let shown = harness.object_state.resource.payment.as_ref().unwrap().dispute.clone().unwrap();
        assert_eq!((shown.id.as_str(), shown.amount_minor), ("D2", 4000), "the open one, with the sum");
        assert_eq!(harness.withdrawn(), [("D2".to_owned(), 1000), ("D1".to_owned(), 3000)]);
        assert_eq!(harness.moved(), ["D2", "open", "open"]);
        harness.hear_of_dispute((13, "CHARGEBACK_REVERSED", "D2", 1000));
        assert_eq!(harness.withdrawn(), [("D1".to_owned(), 3000)]);
        assert_eq!(harness.moved(), ["D2", "won", "lost"], "the one that moved, and all as one");
        assert_eq!(harness.refundable(), ("disputed", 2000));
        assert!(harness.gives_back(2000) && !harness.gives_back(2001));
    }
}

#[test]
fn disputes_stand_as_the_newest_news_of_each_says_in_any_order() {
    let order = Just((0..LOST_AND_WON.len()).flat_map(|it| [it, it]).collect::<Vec<_>>()).prop_shuffle();
    proptest!(|(order in order)| {
        let mut harness = Harness::charged();
        for &number in &order {
            harness.hear_of_dispute(LOST_AND_WON[number]);
        }
        prop_assert_eq!(harness.refundable(), ("disputed", 2000));
        prop_assert!(!harness.gives_back(2001));
        prop_assert_eq!(harness.withdrawn(), [("D1".to_owned(), 3000)]);
    });
}

/// The end of a defense period says nothing of what was withdrawn: it tells of a loss only where that was heard before.
#[test]
fn an_end_of_a_defense_period_that_comes_too_early_lets_nothing_lost_be_given_back() {
    let ended = (11, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000);
    let [taken, _, second, reversed] = LOST_AND_WON;
    for order in
        [[ended, taken, second, reversed], [second, ended, reversed, taken], [reversed, taken, second, ended]]
    {
        let mut harness = Harness::charged();
        for told in order {
            harness.hear_of_dispute(told);
        }
        let (status, refundable) = harness.refundable();
        assert!(status == "disputed" && refundable <= 2000, "{order:?}: {status}, {refundable}");
    }
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// What nobody has answered of an inquiry can still be defended once it is a chargeback, and that can be lost, too.
#[test]
fn the_end_of_an_inquiry_loses_no_chargeback_in_any_order() {
    let told: [Notice; 3] = [
        (10, "REQUEST_FOR_INFORMATION", "D1", 3000),
        (11, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000),
        (12, "CHARGEBACK", "D1", 3000),
    ];
    for order in ORDERS {
        let mut harness = Harness::having_heard(order.map(|number| told[number]));
        assert_eq!(harness.refundable(), ("disputed", 0), "{order:?}: it is open");
        assert_eq!(harness.withdrawn(), [("D1".to_owned(), 3000)], "{order:?}");
        harness.hear_of_dispute((13, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000));
        assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000), "{order:?}: it is lost");
    }
}

/// Nobody has answered either: whichever end is heard first, the chargeback is lost.
#[test]
fn an_undefended_chargeback_is_lost_however_its_inquiry_ended() {
    let told: [Notice; 4] = [
        (10, "REQUEST_FOR_INFORMATION", "D1", 3000),
        (12, "CHARGEBACK", "D1", 3000),
        (13, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000),
        (11, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000),
    ];
    for is_inquiry_over in [false, true] {
        let heard: Vec<Notice> = told[..if is_inquiry_over { 4 } else { 3 }].to_vec();
        let order = Just(heard).prop_shuffle();
        proptest!(|(order in order)| {
            let harness = Harness::having_heard(order);
            prop_assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000));
            prop_assert_eq!(harness.withdrawn(), [("D1".to_owned(), 3000)]);
        });
    }
}

/// As a release before has taken it from Stripe.
#[test]
fn a_chargeback_that_was_called_refundable_is_not() {
    for (status, left) in [("open", 0), ("lost", AMOUNT - 3000)] {
        let mut harness = Harness::charged();
        let written = serde_json::json!({ "id": "du_1", "amount_minor": 3000, "status": status, "withdrawn": true, "refundable": true });
        let dispute: Dispute = serde_json::from_value(written).unwrap();
        let payment = harness.object_state.resource.payment.as_mut().unwrap();
        (payment.dispute, payment.disputes) = (Some(dispute.clone()), vec![dispute]);
        assert_eq!(harness.refundable(), ("disputed", left), "{status}");
    }
}

/// It ends the warning and the chargeback alike, in whichever order the three are heard.
#[test]
fn an_undefended_dispute_is_lost_once_its_money_is_taken_in_any_order() {
    let told: [Notice; 3] = [
        (10, "NOTIFICATION_OF_CHARGEBACK", "D1", 3000),
        (11, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000),
        (12, "CHARGEBACK", "D1", 3000),
    ];
    for order in ORDERS {
        let mut harness = Harness::having_heard(order.map(|number| told[number]));
        assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000), "{order:?}");
        assert_eq!(harness.withdrawn(), [("D1".to_owned(), 3000)], "{order:?}");
        let again = harness.hear_of_dispute(told[1]);
        assert_eq!(again, Ingested::Applied, "{order:?}");
    }
    let mut harness = Harness::charged();
    harness.hear_of_its_end((11, "DISPUTE_DEFENSE_PERIOD_ENDED", "psp_pay", 3000));
    assert_eq!(harness.refundable(), ("disputed", 0), "the bank may take it yet");
    harness.hear_of_dispute(told[0]);
    harness.hear_of_dispute(told[2]);
    assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000));
    let mut harness = Harness::charged();
    harness.hear_of_dispute(told[1]);
    harness.hear_of_dispute((10, "REQUEST_FOR_INFORMATION", "D1", 3000));
    assert_eq!(harness.refundable(), ("succeeded", AMOUNT), "an inquiry that nobody has answered");
}

/// What a bank only asks about can be given back, whatever another bank has taken.
#[test]
fn an_inquiry_beside_a_lost_dispute_forbids_no_refund_of_the_rest() {
    let mut harness = Harness::charged();
    harness.hear_of_dispute((10, "SECOND_CHARGEBACK", "D1", 3000));
    harness.hear_of_dispute((11, "REQUEST_FOR_INFORMATION", "D2", 1000));
    assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000));
    assert!(harness.gives_back(2000) && !harness.gives_back(2001));
    harness.hear_of_dispute((12, "CHARGEBACK", "D2", 1000));
    assert_eq!(harness.refundable(), ("disputed", 0));
    assert!(!harness.gives_back(1));
}

#[test]
fn disputes_are_kept_up_to_a_bound_and_each_further_one_is_for_a_person() {
    let mut harness = Harness::charged();
    for number in 0..100 {
        let id: &'static str = format!("D{number}").leak();
        let taken = harness.hear_of_dispute((10, "CHARGEBACK", id, 10));
        assert!(matches!(taken, Ingested::Alert { .. }), "{number}: {taken:?}");
    }
    let further = harness.hear_of_dispute((11, "CHARGEBACK", "D100", 10));
    assert!(matches!(further, Ingested::Contradiction { .. }), "{further:?}");
    let known = harness.hear_of_dispute((11, "CHARGEBACK_REVERSED", "D0", 10));
    assert!(matches!(known, Ingested::Alert { .. }), "{known:?}");
    assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().disputed_minor(), 990);
}

/// `originalReference` is left out of what decides some, and `pspReference` is the dispute's, the payment's, or one of its own.
#[test]
fn what_decides_a_dispute_without_naming_its_payment_decides_the_one_that_is_known() {
    for id in ["D1", "psp_pay", "another"] {
        for (codes, expected) in [
            (&["CHARGEBACK_REVERSED"][..], ("won", false)),
            (&["PREARBITRATION_WON"], ("won", false)),
            (&["PREARBITRATION_LOST"], ("lost", true)),
            (&["SECOND_CHARGEBACK"], ("lost", true)),
            (&["CHARGEBACK_REVERSED", "SECOND_CHARGEBACK"], ("lost", true)),
        ] {
            let mut harness = Harness::charged();
            harness.hear_of_dispute((10, "CHARGEBACK", "D1", 3000));
            for (day, code) in (11..).zip(codes) {
                let taken = harness.hear_of_its_end((day, code, id, 3000));
                assert!(matches!(taken, Ingested::Alert { .. }), "{id} {code}: {taken:?}");
            }
            let payment = harness.object_state.resource.payment.as_ref().unwrap();
            let [dispute] = payment.each_dispute() else { panic!("{:?}", payment.disputes) };
            assert_eq!((dispute.id.as_str(), dispute.status.as_str(), dispute.withdrawn), {
                let (status, withdrawn) = expected;
                ("D1", status, withdrawn)
            });
        }
    }
}

#[test]
fn what_decides_one_of_several_decides_the_open_one_unless_it_names_another() {
    for (id, withdrawn) in [("D1", "D2"), ("D2", "D1"), ("psp_pay", "D1")] {
        let mut harness = Harness::charged();
        harness.hear_of_dispute((10, "CHARGEBACK", "D1", 3000));
        harness.hear_of_dispute((11, "DISPUTE_DEFENSE_PERIOD_ENDED", "D1", 3000));
        harness.hear_of_dispute((12, "CHARGEBACK", "D2", 1000));
        let amount = if id == "D1" { 3000 } else { 1000 };
        harness.hear_of_its_end((13, "CHARGEBACK_REVERSED", id, amount));
        let left: Vec<String> = harness.withdrawn().into_iter().map(|(id, _)| id).collect();
        assert_eq!(left, [withdrawn], "{id}");
    }
}

/// A second chargeback is lost, whatever has been heard before.
#[test]
fn the_end_of_a_dispute_can_come_before_its_beginning() {
    for id in ["D1", "psp_pay"] {
        let mut harness = Harness::charged();
        harness.hear_of_its_end((12, "SECOND_CHARGEBACK", id, 3000));
        assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000));
        harness.hear_of_dispute((10, "CHARGEBACK", "D1", 3000));
        harness.hear_of_its_end((11, "CHARGEBACK_REVERSED", id, 3000));
        assert_eq!(harness.refundable(), ("disputed", AMOUNT - 3000), "{id}");
        harness.hear_of_dispute((13, "CHARGEBACK", "D2", 1000));
        assert_eq!(harness.withdrawn(), [("D2".to_owned(), 1000), ("D1".to_owned(), 3000)]);
    }
}

#[test]
fn a_dispute_of_another_payment_is_for_a_person() {
    let mut harness = Harness::charged();
    let taken = harness.hear_of_dispute_of((10, "CHARGEBACK", "D1", 3000), "psp_before", "x");
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(harness.refundable(), ("succeeded", AMOUNT));
}

/// A card in another currency is charged back in that one at times: how much of ours that is nobody says.
#[test]
fn a_dispute_in_another_currency_is_of_the_whole_payment_and_says_so() {
    let mut harness = Harness::charged();
    let notice = (20, "CHARGEBACK", "DIS1", PART);
    let Ingested::Alert { detail } = harness.hear_of_dispute_in("EUR", notice, "psp_pay", "x") else {
        panic!("nobody is told")
    };
    assert_eq!(detail, "a dispute of 5000 is open, told as 1000 eur: all of it counts");
    assert_eq!(harness.withdrawn(), [("DIS1".to_owned(), AMOUNT)]);
    let mut harness = Harness::charged();
    let Ingested::Alert { detail } = harness.hear_of_dispute(notice) else { panic!("nobody is told") };
    assert_eq!(detail, "a dispute of 1000 is open");
}
