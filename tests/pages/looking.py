"""Opens pages in a browser and notes whatever it complains about."""

SECONDS = 60_000  # milliseconds, as Playwright counts

_NOTE_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
});
"""


class Looker:
    """Contexts of a browser, and what was said in their consoles."""

    def __init__(self, browser):
        self._browser = browser
        self._contexts = []
        self.complaints = []
        self.requests = []

    def page(self, *, width=1280, dark=False, **more):
        """A page of a browser of its own."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            **more,
        )
        context.set_default_timeout(SECONDS)
        context.add_init_script(_NOTE_VIOLATIONS)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("response", self._answered)
        return page

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _answered(self, response):
        self.requests.append(response)

    def close(self):
        for context in self._contexts:
            context.close()


def wait_until(page, expression, *arguments):
    """Wait until an expression of JavaScript holds; polled, since a policy forbids to evaluate."""
    page.wait_for_function(expression, arg=arguments[0] if arguments else None, polling=100)
