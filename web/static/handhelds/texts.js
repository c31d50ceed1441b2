// Translation of visible texts to the language of the page. The English text is the key; an English page
// loads no catalogue.

const holder = document.getElementById("texts");
const catalogue = holder ? JSON.parse(holder.textContent) : {};

/** Locale of dates and numbers: the page's language if translated, else the browser's. */
export const LOCALES = holder ? document.documentElement.lang : [];

const numbers = new Intl.NumberFormat(LOCALES);
const forms = ["zero", "one", "two", "few", "many", "other"];
const rules = new Intl.PluralRules(document.documentElement.lang || "en");
const categories = forms.filter((form) => rules.resolvedOptions().pluralCategories.includes(form));

/** Translate a text and fill in its `{names}`. */
export function t(text, values = {}) {
  return fill(catalogue[text] || text, values);
}

/** Translate a text with a number; the caller passes the English singular and plural. */
export function tn(one, many, count, values = {}) {
  const translated = catalogue[one];
  const index = categories.indexOf(rules.select(count));
  const form = Array.isArray(translated) ? translated[Math.min(index, translated.length - 1)] : count === 1 ? one : many;
  return fill(form, { count: numbers.format(count), ...values });
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}
