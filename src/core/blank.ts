/** Whether nothing of a text is seen: no name, for nobody could read or follow it. */
export const isBlank = (text: string): boolean =>
  /^[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text);
