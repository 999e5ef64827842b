//! German.

use super::page_texts::Texts;
use crate::say::Say;

pub(super) const DE: Texts = Texts {
    page,
    closing: "Gehen Sie zurück, laden Sie jene Seite neu, und senden Sie das Formular von dort, falls es noch nötig ist.",
    reference: "Referenz",
    see_answer: "Antwort ansehen",
    quiet: "Die Website ist möglicherweise noch damit beschäftigt: Sehen Sie {when} wieder nach. Ist bis dahin nichts angekommen, können Sie \
            das Formular als neues senden.",
    in_a_second: "in einer Sekunde",
    in_seconds: "in {n} Sekunden",
    in_minutes: "in {n} Minuten",
    look_again: "Wieder nachsehen",
    send_as_new: "Als neues Formular senden",
    send_not_arrived: "Es ist nicht angekommen: als neues senden",
    send: "Senden",
};

const fn page(say: Say) -> (&'static str, &'static str) {
    match say {
        Say::UnderWay => (
            "Ihre Eingabe ist unterwegs",
            "Was Sie gesendet haben, wird noch bearbeitet. Warten Sie einen Moment und sehen Sie dann wieder nach: Es wird nicht zweimal gesendet.",
        ),
        Say::Differs => (
            "Dieses Formular wurde schon gesendet",
            "Es wurde bereits gesendet und beantwortet, und jetzt steht etwas anderes darin. Dieses Mal wurde nichts gesendet.",
        ),
        Say::AlreadyDone => (
            "Das wurde schon gesendet",
            "Es wurde gesendet und einmal ausgeführt. Die Antwort kann hier nicht noch einmal gezeigt werden: Sehen Sie bei Ihren Bestellungen nach, \
             oder melden Sie sich wieder an.",
        ),
        Say::Unknown => (
            "Es ist nicht bekannt, ob das angekommen ist",
            "Die Website hat nicht mitgeteilt, ob es ausgeführt wurde. Es wurde nicht noch einmal gesendet, damit nichts doppelt geschieht. Sehen Sie \
             bei Ihren Bestellungen oder in Ihren E-Mails nach, bevor Sie es wieder versuchen; der Betreiber der Website findet es anhand der Referenz.",
        ),
        Say::NeverSent => (
            "Die Website war nicht erreichbar",
            "Es wurde nichts gesendet. Versuchen Sie es gleich noch einmal: Es kann nicht doppelt geschehen.",
        ),
        Say::NotDone => (
            "Das wurde nicht ausgeführt",
            "Es wurde gesendet, und der Betreiber der Website hat festgestellt, dass es nicht ausgeführt wurde. Laden Sie die Seite neu und senden Sie \
             es noch einmal.",
        ),
        Say::NoAnswer => (
            "Die Website hat nicht geantwortet",
            "Es ist nicht bekannt, ob das angekommen ist, und es wurde ohne den Schutz davor gesendet, dass es doppelt geschieht. Versuchen Sie es gleich \
             noch einmal, wenn das keinen Schaden anrichtet.",
        ),
        Say::Unreachable => (
            "Die Website war nicht erreichbar",
            "Sie antwortet zurzeit nicht. Laden Sie diese Seite in Kürze neu.",
        ),
        Say::Old => (
            "Diese Seite war lange geöffnet",
            "Was darin steht, stimmt vielleicht nicht mehr, und vielleicht wurde es schon gesendet. Jetzt wurde nichts gesendet.",
        ),
        Say::TooMany => (
            "Dieses Formular wurde sehr oft gesendet",
            "Laden Sie die Seite neu, auf der es steht, und senden Sie es von dort.",
        ),
        Say::RateLimited => (
            "Bitte warten Sie einen Moment",
            "Aus Ihrem Netz wurde in kurzer Zeit mehr gesendet, als diese Website annimmt. Dieses Mal wurde nichts gesendet: Versuchen Sie es in \
             einer Minute wieder.",
        ),
        Say::KeyMissing => (
            "Ein weiterer Klick ist nötig",
            "Dieses Formular kam ohne den Schlüssel, der verhindert, dass es zweimal gesendet wird. Es wurde noch nichts gesendet.",
        ),
        Say::CrossSite => (
            "Das kam von einer anderen Website",
            "Es wurde nicht von einer Seite dieser Website gesendet. Es wurde nichts weitergegeben: Öffnen Sie hier die Seite, auf der das Formular \
             steht, und senden Sie es von dort.",
        ),
        Say::TooLarge => {
            ("Das ist zu groß", "Es hat mehr Bytes, als diese Adresse annimmt. Es wurde nichts gesendet.")
        }
        Say::Unreadable => (
            "Die Anfrage konnte nicht gelesen werden",
            "Sie brach ab. Es wurde nichts gesendet: Senden Sie es noch einmal, es kann nicht doppelt geschehen.",
        ),
        Say::Unavailable => (
            "Das funktioniert zurzeit nicht",
            "Es ist nicht bekannt, ob das Gesendete angekommen ist. Senden Sie es noch einmal: Es kann nicht doppelt geschehen.",
        ),
        Say::Misconfigured => (
            "Diese Website ist nicht eingerichtet",
            "Eine Einstellung fehlt oder ist falsch; der Betreiber findet ihren Namen im Protokoll. Es wurde nichts gesendet.",
        ),
        Say::NothingHere => (
            "Hier ist nichts",
            "Mit diesem Schlüssel wurde nichts gesendet, oder jemand anderes hat es gesendet.",
        ),
        Say::KeyExpired | Say::KeySpent | Say::KeyInvalid | Say::Unidentified => say.to_client(),
    }
}
