/* The keyboard for reviews: a letter chooses, presses or goes to whatever has it as data-key;
   Ctrl and Enter send the review. Everything can be done without this file. */

function typing(target) {
  return target.matches('input:not([type="radio"]):not([type="checkbox"]), textarea, select');
}

document.addEventListener("keydown", (event) => {
  const form = document.querySelector("form.review");
  if (form && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
    return;
  }
  if (event.key === "Escape" && typing(event.target)) {
    event.target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (!/^[a-z]$/.test(event.key)) return;
  const wanted = document.querySelector(`[data-key="${event.key}"]`);
  if (!wanted) return;
  event.preventDefault();
  if (wanted.matches("button")) {
    wanted.form.requestSubmit(wanted);
  } else if (wanted.matches("textarea")) {
    wanted.focus();
  } else {
    wanted.checked = true;
    document.getElementById("reason")?.focus();
  }
});
