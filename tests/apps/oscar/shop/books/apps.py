from django.apps import AppConfig


class BooksConfig(AppConfig):
    name = "shop.books"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        from oscar.apps.checkout.signals import pre_payment

        from shop.books.models import Payment

        def pay(sender, view, **kwargs):
            Payment.objects.create(email=view.checkout_session.get_guest_email() or "")

        pre_payment.connect(pay, dispatch_uid="books", weak=False)
