// Every text a person reads goes through here, in the language of the page. The English text is the key; an English page
// loads no catalogue.

const holder = document.getElementById("texts");
const catalogue = holder ? JSON.parse(holder.textContent) : {};

/** What dates and numbers are written by: the language of a page that is translated, else as the browser is set. */
export const LOCALES = holder ? document.documentElement.lang : [];

const forms = ["zero", "one", "two", "few", "many", "other"];
const rules = new Intl.PluralRules(document.documentElement.lang || "en");
const categories = forms.filter((form) => rules.resolvedOptions().pluralCategories.includes(form));

/** A text with its `{names}` filled in. */
export function t(text, values = {}) {
  return fill(catalogue[text] || text, values);
}

/** The form of a text that goes with a number; both are written in English where it is called. */
export function tn(one, many, count, values = {}) {
  const translated = catalogue[one];
  const index = categories.indexOf(rules.select(count));
  const form = Array.isArray(translated) ? translated[Math.min(index, translated.length - 1)] : count === 1 ? one : many;
  return fill(form, { count, ...values });
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}
