//! Spanish.

use super::page_texts::Texts;
use crate::say::Say;

pub(super) const ES: Texts = Texts {
    page,
    closing: "Vuelva atrás, recargue esa página y envíe el formulario desde allí si todavía hace falta.",
    reference: "Referencia",
    see_answer: "Ver la respuesta",
    quiet: "Es posible que el sitio aún lo esté procesando: vuelva a comprobarlo {when}. Si para entonces no ha llegado, podrá enviarlo como nuevo.",
    in_a_second: "dentro de un segundo",
    in_seconds: "dentro de {n} segundos",
    in_minutes: "dentro de {n} minutos",
    look_again: "Volver a comprobar",
    send_as_new: "Enviar como nuevo",
    send_not_arrived: "No ha llegado: enviar como nuevo",
    send: "Enviar",
};

const fn page(say: Say) -> (&'static str, &'static str) {
    match say {
        Say::UnderWay => (
            "Su envío está en curso",
            "Lo que ha enviado todavía se está procesando. Espere un momento y vuelva a comprobarlo: no se envía dos veces.",
        ),
        Say::Differs => (
            "Este formulario ya se envió",
            "Ya se envió y se respondió, y lo que contiene ahora es distinto. Esta vez no se ha enviado nada.",
        ),
        Say::AlreadyDone => (
            "Esto ya se envió",
            "Se envió y se realizó una vez. La respuesta no se puede mostrar aquí de nuevo: consulte sus pedidos o vuelva a iniciar sesión.",
        ),
        Say::Unknown => (
            "No se sabe si esto ha llegado",
            "El sitio no ha indicado si se realizó. No se ha vuelto a enviar, para que nada ocurra dos veces. Consulte sus pedidos o su correo \
             electrónico antes de intentarlo de nuevo; el personal del sitio puede encontrarlo por la referencia.",
        ),
        Say::NeverSent => (
            "No se pudo contactar con el sitio",
            "No se ha enviado nada. Inténtelo de nuevo en un momento: no puede ocurrir dos veces.",
        ),
        Say::NotDone => (
            "Esto no se realizó",
            "Se envió, y el personal del sitio ha comprobado que no se realizó. Recargue la página y envíelo una vez más.",
        ),
        Say::NoAnswer => (
            "El sitio no ha respondido",
            "No se sabe si esto ha llegado, y se envió sin la protección que evita que ocurra dos veces. Inténtelo de nuevo en un momento, si eso no \
             causa ningún perjuicio.",
        ),
        Say::Unreachable => (
            "No se pudo contactar con el sitio",
            "No responde en este momento. Recargue esta página dentro de poco.",
        ),
        Say::Old => (
            "Esta página ha estado abierta mucho tiempo",
            "Es posible que lo que contiene ya no sea correcto y que ya se haya enviado antes. Ahora no se ha enviado nada.",
        ),
        Say::TooMany => (
            "Este formulario se ha enviado muchas veces",
            "Recargue la página en la que está y envíelo desde allí.",
        ),
        Say::RateLimited => (
            "Espere un momento, por favor",
            "Desde su red se ha enviado en poco tiempo más de lo que este sitio acepta. Esta vez no se ha enviado nada: inténtelo de nuevo dentro de un \
             minuto.",
        ),
        Say::KeyMissing => (
            "Hace falta un clic más",
            "Este formulario llegó sin la clave que evita que se envíe dos veces. Todavía no se ha enviado nada.",
        ),
        Say::CrossSite => (
            "Esto viene de otro sitio",
            "No se envió desde una página de este sitio. No se ha transmitido nada: abra aquí la página en la que está el formulario y envíelo desde allí.",
        ),
        Say::TooLarge => (
            "Esto es demasiado grande",
            "Tiene más bytes de los que acepta esta dirección. No se ha enviado nada.",
        ),
        Say::Unreadable => (
            "No se pudo leer la solicitud",
            "Se interrumpió. No se ha enviado nada: envíela de nuevo, no puede ocurrir dos veces.",
        ),
        Say::Unavailable => (
            "Esto no funciona en este momento",
            "No se sabe si lo que ha enviado ha llegado. Envíelo de nuevo: no puede ocurrir dos veces.",
        ),
        Say::Misconfigured => (
            "Este sitio no está configurado",
            "Falta un ajuste o es incorrecto; el personal del sitio encuentra su nombre en el registro. No se ha enviado nada.",
        ),
        Say::NothingHere => {
            ("Aquí no hay nada", "No se ha enviado nada con esta clave, o lo envió otra persona.")
        }
        Say::KeyExpired | Say::KeySpent | Say::KeyInvalid | Say::Unidentified => say.to_client(),
    }
}
