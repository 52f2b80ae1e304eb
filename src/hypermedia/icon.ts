/** The logo of every page, as an SVG image. */
export const icon = {
  mediaType: 'image/svg+xml',
  body: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#0b5fb0" d="M1 8a7 7 0 1 1 7 7H1z"/></svg>',
};
