// Downloads, made by the page itself: a picture of the field, and the page as one file.

import { css } from "./colours.js";

export function downloadPicture(field, title) {
  const picture = document.createElement("canvas");
  const margin = 32, head = 60;
  picture.width = field.width + 2 * margin;
  picture.height = field.height + margin + head;
  const pen = picture.getContext("2d");
  pen.fillStyle = css("--ground");
  pen.fillRect(0, 0, picture.width, picture.height);
  pen.fillStyle = css("--text");
  pen.font = "22px ui-serif, Georgia, 'Liberation Serif', serif";
  pen.fillText(title, margin, 40);
  pen.drawImage(field, margin, head);
  picture.toBlob((blob) => save(blob, "hebbnmf.png"));
}

// The page with pictures in the place of canvases, its style inside, and no script.
export async function downloadSnapshot(title) {
  const style = await (await fetch("style.css")).text();
  const copy = document.documentElement.cloneNode(true);
  const originals = document.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const original = originals[i];
    const image = document.createElement("img");
    image.alt = original.getAttribute("aria-label") || "";
    if (original.width && original.height) {
      image.src = original.toDataURL();
      image.width = original.clientWidth;
      image.height = original.clientHeight;
    }
    canvas.replaceWith(image);
  });
  copy.querySelectorAll("script, link, dialog, #toast").forEach((node) => node.remove());
  copy.classList.add("snapshot");
  copy.querySelector("title").textContent = title;
  const sheet = document.createElement("style");
  sheet.textContent = style;
  copy.querySelector("head").append(sheet);
  save(new Blob(["<!doctype html>\n", copy.outerHTML], { type: "text/html" }), "hebbnmf.html");
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
