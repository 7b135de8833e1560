// Puts the values of variables into texts, in one pass: a value is never looked at again, and
// nothing is evaluated. `$${` stands for `${`.

const PLACEHOLDER = /\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

export const listVariableNames = (text: string): string[] => [
  ...new Set(
    [...text.matchAll(PLACEHOLDER)]
      .filter(([whole]) => !whole.startsWith('$$'))
      .map(([, name]) => name!),
  ),
];

export const fillIn = (text: string, values: ReadonlyMap<string, string>): string =>
  text.replace(PLACEHOLDER, (whole, name: string) =>
    whole.startsWith('$$') ? whole.slice(1) : (values.get(name) ?? whole),
  );
