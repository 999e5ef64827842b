//! French.

use super::page_texts::Texts;
use crate::say::Say;

pub(super) const FR: Texts = Texts {
    page,
    closing: "Revenez en arrière, rechargez cette page et envoyez le formulaire depuis celle-ci s’il est encore nécessaire.",
    reference: "Référence",
    see_answer: "Voir la réponse",
    quiet: "Le site est peut-être encore en train de traiter votre envoi : vérifiez à nouveau {when}. S’il n’est pas arrivé d’ici là, vous \
            pourrez l’envoyer comme un nouvel envoi.",
    in_a_second: "dans une seconde",
    in_seconds: "dans {n} secondes",
    in_minutes: "dans {n} minutes",
    look_again: "Vérifier à nouveau",
    send_as_new: "Envoyer comme nouveau",
    send_not_arrived: "Rien n’est arrivé : envoyer comme nouveau",
    send: "Envoyer",
};

const fn page(say: Say) -> (&'static str, &'static str) {
    match say {
        Say::UnderWay => (
            "Votre envoi est en cours",
            "Ce que vous avez envoyé est encore en cours de traitement. Patientez un instant, puis vérifiez à nouveau : rien n’est envoyé deux fois.",
        ),
        Say::Differs => (
            "Ce formulaire a déjà été envoyé",
            "Il a déjà été envoyé et a reçu une réponse, et son contenu est maintenant différent. Rien n’a été envoyé cette fois-ci.",
        ),
        Say::AlreadyDone => (
            "Ceci a déjà été envoyé",
            "L’envoi a été effectué et traité une fois. Sa réponse ne peut pas être affichée ici de nouveau : consultez vos commandes ou \
             reconnectez-vous.",
        ),
        Say::Unknown => (
            "On ne sait pas si votre envoi est arrivé",
            "Le site n’a pas indiqué s’il a été traité. Il n’a pas été renvoyé, afin que rien ne se produise deux fois. Consultez vos commandes ou vos \
             e-mails avant de réessayer ; l’équipe du site peut le retrouver grâce à la référence.",
        ),
        Say::NeverSent => (
            "Le site n’a pas pu être joint",
            "Rien n’a été envoyé. Réessayez dans un instant : cela ne peut pas se produire deux fois.",
        ),
        Say::NotDone => (
            "Ceci n’a pas été traité",
            "L’envoi a été effectué, et l’équipe du site a constaté qu’il n’a pas été traité. Rechargez la page et envoyez-le encore une fois.",
        ),
        Say::NoAnswer => (
            "Le site n’a pas répondu",
            "On ne sait pas si votre envoi est arrivé, et il a été effectué sans la protection contre les doublons. Réessayez dans un instant, si \
             cela est sans conséquence.",
        ),
        Say::Unreachable => (
            "Le site n’a pas pu être joint",
            "Il ne répond pas pour le moment. Rechargez cette page dans un petit moment.",
        ),
        Say::Old => (
            "Cette page est restée ouverte longtemps",
            "Ce qu’elle contient n’est peut-être plus exact, et elle a peut-être déjà été envoyée. Rien n’a été envoyé maintenant.",
        ),
        Say::TooMany => (
            "Ce formulaire a été envoyé très souvent",
            "Rechargez la page où il se trouve et envoyez-le depuis celle-ci.",
        ),
        Say::RateLimited => (
            "Veuillez patienter un instant",
            "Votre réseau a envoyé en peu de temps plus que ce site n’accepte. Rien n’a été envoyé cette fois-ci : réessayez dans une minute.",
        ),
        Say::KeyMissing => (
            "Un clic de plus est nécessaire",
            "Ce formulaire est arrivé sans la clé qui empêche de l’envoyer deux fois. Rien n’a encore été envoyé.",
        ),
        Say::CrossSite => (
            "Ceci vient d’un autre site",
            "L’envoi ne vient pas d’une page de ce site. Rien n’a été transmis : ouvrez ici la page où se trouve le formulaire et envoyez-le depuis \
             celle-ci.",
        ),
        Say::TooLarge => (
            "C’est trop volumineux",
            "Votre envoi compte plus d’octets que cette adresse n’en accepte. Rien n’a été envoyé.",
        ),
        Say::Unreadable => (
            "La requête n’a pas pu être lue",
            "Elle s’est interrompue. Rien n’a été envoyé : renvoyez-la, cela ne peut pas se produire deux fois.",
        ),
        Say::Unavailable => (
            "Cela ne fonctionne pas pour le moment",
            "On ne sait pas si votre envoi est arrivé. Renvoyez-le : cela ne peut pas se produire deux fois.",
        ),
        Say::Misconfigured => (
            "Ce site n’est pas configuré",
            "Un réglage manque ou est incorrect ; l’équipe du site trouve son nom dans le journal. Rien n’a été envoyé.",
        ),
        Say::NothingHere => {
            ("Il n’y a rien ici", "Rien n’a été envoyé avec cette clé, ou quelqu’un d’autre l’a envoyé.")
        }
        Say::KeyExpired | Say::KeySpent | Say::KeyInvalid | Say::Unidentified => say.to_client(),
    }
}
