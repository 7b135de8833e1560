// Quotes a word of a command that a person pastes into a shell.
/** Returns a word that a shell reads as this text. */
export const quoteWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
